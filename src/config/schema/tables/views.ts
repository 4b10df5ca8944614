// Views: queries under a name.
import { z } from 'zod';
import { choice, flag, list, named, sqlBody, text } from '../kinds.ts';
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
      }),
    security: choice(
      '`invoker`: callers see what the policies of the tables let them see. `definer` reads with the owner’s rights, past row-level security',
      ['invoker', 'definer'],
    ),
    barrier: flag('Conditions of callers never see rows that the view leaves out (`security_barrier`)'),
    check_option: z
      .enum(['local', 'cascaded'])
      .meta({ description: 'Rows written through the view must be rows of the view' })
      .optional(),
    materialized: flag(
      'Its rows are stored, and are as of the last `svc refresh`. Policies do not bind who reads them, so nobody but `service_role` may, unless `expose` and `grants` say so',
    ),
    indexes: list(
      'With `materialized`: its indexes. With a unique one over columns alone, readers do not wait for a refresh',
      index,
    ),
    triggers: list(
      'Triggers, in the order of their names. With `instead_of` a view is written through that PostgreSQL could not write through',
      viewTrigger,
    ),
    comment: text('Comment in the database, shown in the API description').optional(),
    expose: z
      .boolean()
      .meta({ description: 'Served at /rest/v1/<name>: unless said, where it is not `materialized`' })
      .optional(),
    grants: z
      .record(z.string().min(1, 'must not be empty'), z.array(z.enum(PRIVILEGES)))
      .meta({
        description:
          'Privileges by role; a role that is named has exactly these. Absent, `anon` and `authenticated` may select (nothing where it is `materialized`, or where `security: definer` has `expose: false`), and `service_role` has all four',
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
