// Statements for declared types.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';
import type { DesiredType } from '../../schema/desired.ts';
import { isReplacedType } from '../../schema/label.ts';
import type { LiveTable } from '../../schema/live/live-schema.ts';
import { objectKey, quoteName } from '../../schema/model.ts';
import { createTypeSql, type DomainCheck } from '../../schema/types.ts';
import { type Draft, type Planners, SCAN_ROWS_PER_MS, type StepList } from '../step-list.ts';

export const TYPES = {
  'create-type': (steps, { type }) =>
    steps.add({
      identity: type.at,
      sql: createTypeSql(type),
      stage: 'new-types',
      summary: describe(type),
    }),
  'recreate-type': (steps, { type }) =>
    steps.add({
      identity: type.at,
      sql: `drop type ${quoteName(type)}; ${createTypeSql(type)}`,
      stage: 'new-types',
      sign: '~',
      summary: describe(type),
      hazards: ['BREAKS_OLD_CODE'],
    }),
  'add-domain-check': (steps, { type, check, users }) => {
    const { label, expression } = check;
    const add = `alter domain ${quoteName(type)} add constraint ${quoteIdent(label)} check (\n${expression.sql}\n)`;
    const isSmall = users.every((table) => steps.isSmall(table, SCAN_ROWS_PER_MS));
    steps.add({
      identity: type.at,
      sql: isSmall ? add : `${add} not valid`,
      // The check of a new domain is added before columns use arrays of the domain.
      stage: check.callsDeclaredFunction || users.length > 0 ? 'checks' : 'new-types',
      summary: `type ${type.name} check ${expression.written}`,
      ...(isSmall ? lockUsers(users) : {}),
      scans: isSmall && users.length > 0,
      estimateMs: isSmall ? scanMs(steps, users) : 1,
      hazards: users.length > 0 ? ['DATA_DEPENDENT'] : [],
    });
    if (!isSmall) validate(steps, type, check, users);
  },
  'validate-domain-check': (steps, { type, check, users }) => validate(steps, type, check, users),
  'drop-domain-check': (steps, { type, label }) =>
    steps.add({
      identity: type.at,
      sql: `alter domain ${quoteName(type)} drop constraint ${quoteIdent(label)}`,
      stage: 'drop-dependants',
      sign: '-',
      summary: `type ${type.name} check ${label}`,
    }),
  'set-domain-default': (steps, { type, value }) =>
    steps.add({
      identity: type.at,
      sql: `alter domain ${quoteName(type)} ${value === null ? 'drop default' : `set default ${value}`}`,
      stage: 'new-types',
      sign: '~',
      summary: `type ${type.name} ${value === null ? 'without a default' : `default ${value.trim()}`}`,
    }),
  'set-domain-not-null': (steps, { type, notNull, users }) =>
    steps.add({
      identity: type.at,
      sql: `alter domain ${quoteName(type)} ${notNull ? 'set' : 'drop'} not null`,
      stage: notNull ? 'not-null' : 'new-types',
      sign: '~',
      summary: `type ${type.name} ${notNull ? 'not null' : 'may be null'}`,
      ...(notNull ? lockUsers(users) : {}),
      scans: notNull && users.length > 0,
      estimateMs: notNull ? scanMs(steps, users) : 1,
      hazards: notNull && users.length > 0 ? ['DATA_DEPENDENT'] : [],
    }),
  'add-attribute': (steps, { type, attribute }) =>
    steps.add({
      identity: type.at,
      sql: `alter type ${quoteName(type)} add attribute ${quoteIdent(attribute.name)} ${attribute.type} cascade`,
      stage: 'new-types',
      summary: `type ${type.name} attribute ${attribute.name} ${attribute.type}`,
    }),
  'add-values': (steps, { type, live, values }) => {
    // The names before the renames of this run.
    const name = quoteName({ schema: live.schema, name: live.former?.name ?? live.name });
    const formerOf = (value: string): string => live.former?.values.get(value) ?? value;
    for (const { value, before } of values)
      steps.add({
        identity: type.at,
        sql: `alter type ${name} add value ${quoteLiteral(value)}${before === null ? '' : ` before ${quoteLiteral(formerOf(before))}`}`,
        lane: 'values',
        stage: 'new-types',
        summary: `type ${type.name}: value ${value}${before === null ? '' : ` before ${before}`}`,
      });
  },
  'comment-type': (steps, { type }) => {
    const { comment } = type.model;
    steps.add({
      identity: type.at,
      sql: `comment on type ${quoteName(type)} is ${comment === undefined ? 'null' : quoteLiteral(comment)}`,
      stage: 'new-types',
      sign: '~',
      summary: `type ${type.name}: comment`,
    });
  },
  'drop-type': (steps, { live }) => {
    const drop = `drop type ${quoteName(live)}`;
    const { name } = live.former ?? live;
    const isReplaced = live.former !== undefined || isReplacedType(live.name);
    const what = isReplaced ? `former type${live.former ? ` ${name}` : ''}` : `type ${name}`;
    steps.add({
      identity: `types.${name}`,
      // Retired and undeclared objects may still use the type.
      sql: live.used
        ? `do ${quoteLiteral(`begin ${drop}; exception when dependent_objects_still_exist then null; end`)}`
        : drop,
      stage: 'retire',
      sign: '-',
      summary: `${what} dropped${live.used ? ', unless something that is kept uses it' : ''}`,
      hazards: ['BREAKS_OLD_CODE'],
    });
  },
} satisfies Partial<Planners>;

function describe({ name, model }: DesiredType): string {
  switch (model.kind) {
    case 'enum':
      return `type ${name}: ${model.values.join(', ')}`;
    case 'domain':
      return `type ${name}: domain of ${model.base}`;
    case 'composite':
      return `type ${name}: ${model.attributes.map((one) => `${one.name} ${one.type}`).join(', ')}`;
  }
}

/** Reads all rows of these tables. This blocks writers, but not readers. */
function validate(
  steps: StepList,
  type: DesiredType,
  { label, expression }: DomainCheck,
  users: readonly LiveTable[],
): void {
  steps.add({
    identity: type.at,
    sql: `alter domain ${quoteName(type)} validate constraint ${quoteIdent(label)}`,
    lane: 'online',
    stage: 'checks',
    sign: '~',
    summary: `type ${type.name} check ${expression.written}: check rows`,
    ...lockUsers(users),
    scans: true,
    estimateMs: scanMs(steps, users),
    hazards: ['DATA_DEPENDENT', 'NON_TX'],
  });
}

/** Locks all tables that use the domain, because a single statement reads their rows. */
function lockUsers(users: readonly LiveTable[]): Pick<Draft, 'otherTables' | 'lock'> {
  return users.length === 0 ? {} : { otherTables: users.map(objectKey), lock: 'Share' };
}

function scanMs(steps: StepList, users: readonly LiveTable[]): number {
  return users.reduce((sum, table) => sum + steps.estimate(table, SCAN_ROWS_PER_MS), 0);
}
