// Views: named queries.
import { z } from 'zod';
import { choice, COMMON, flag, list, named, RARE, sqlBody, text } from '../kinds.ts';
import { index } from './tables.ts';
import { viewTrigger } from './triggers.ts';

const PRIVILEGES = ['select', 'insert', 'update', 'delete'] as const;

const view = z
  .strictObject({
    schema: text('PostgreSQL schema').default('public').meta({ description: 'PostgreSQL schema' }),
    query: z
      .union([
        sqlBody('One SELECT, VALUES or WITH'),
        z.strictObject({ file: text('SQL file, relative to svc.yaml', 'sql/open_todos.sql') }),
      ])
      .meta({
        description: 'One SELECT, VALUES or WITH; or `{ file: <path> }`',
        examples: ['select id, title from todos where not done', { file: 'sql/open_todos.sql' }],
        ...COMMON,
      }),
    security: choice(
      '`invoker`: the policies of the tables apply to callers. `definer` reads and writes with the owner’s rights ' +
        'and bypasses row-level security',
      ['invoker', 'definer'],
    ),
    barrier: flag('Evaluate conditions of callers only on rows of the view (`security_barrier`)'),
    check_option: z
      .enum(['local', 'cascaded'])
      .meta({ description: 'Rows written through the view must be rows of the view' })
      .optional(),
    materialized: flag(
      'Store the rows, as of the last `svc refresh`. Policies do not apply to stored rows, so only ' +
        '`service_role` can read them, unless `expose` and `grants` allow more',
    ),
    indexes: list(
      'With `materialized`: its indexes. With a unique index over columns alone, readers do not wait for a refresh',
      index,
    ).meta(RARE),
    triggers: list(
      'Triggers, in the order of their names. With `instead_of`, clients can write through any view',
      viewTrigger,
    ),
    comment: text('Comment in the database, shown in the API description').optional(),
    expose: z
      .boolean()
      .meta({ description: 'Serve the view at /rest/v1/<name>; default: true unless `materialized`' })
      .optional(),
    grants: z
      .record(z.string().min(1, 'must not be empty'), z.array(z.enum(PRIVILEGES)))
      .meta({
        description:
          'Privileges by role; a listed role has exactly these. By default, `anon` and `authenticated` can ' +
          'select (nothing if the view is `materialized`, or has `security: definer` and `expose: false`), ' +
          'and `service_role` has all four',
        examples: [{ anon: [], authenticated: ['select', 'insert', 'update', 'delete'] }],
      })
      .optional(),
    renamed_from: text('Earlier name of the view').optional(),
  })
  .transform(({ check_option: checkOption, renamed_from: renamedFrom, ...same }) => ({
    ...same,
    expose: same.expose ?? !same.materialized,
    checkOption,
    renamedFrom,
  }));

export const views = named('Views by name, served at /rest/v1/<name> like tables', view);

export type RawView = z.infer<typeof view>;
