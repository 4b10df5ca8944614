// What the file makes by statements, as steps: made from the server's print, where each name has its schema.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';
import { mayStay } from '../../diff/objects/statements.ts';
import { API_ROLES } from '../../schema/rights/roles.ts';
import {
  type DesiredStatement,
  type LiveStatement,
  phaseOf,
  type StatementKind,
} from '../../schema/statements.ts';
import type { Stage, Step } from '../step.ts';
import type { ChangeOf, Planners, StepList } from '../step-list.ts';

export const STATEMENTS = {
  'create-statement': (steps, change) => create(steps, change, '+'),
  'recreate-statement': (steps, change) => {
    const { statement, live } = change;
    steps.add({
      ...lockOf(live, change.locked),
      identity: statement.at,
      sql: `drop ${live.identity}`,
      stage: phaseOf(live) === 'last' ? 'drop-dependants' : 'drop-statements',
      sign: '-',
      summary: `${live.identity} (made again)`,
    });
    create(steps, change, '~');
  },
  'alter-statement': (steps, { statement, live }) => {
    const mapped = live.definition
      .slice(1)
      .map((text) => text.replace(/ ADD (MAPPING FOR .*?) WITH .*/, ' DROP $1'));
    steps.add({
      identity: statement.at,
      sql: [...mapped, ...(statement.normal?.definition ?? []).slice(1)].join('; '),
      stage: 'base-statements',
      sign: '~',
      summary: `${statement.model.label}: mappings`,
    });
  },
  'drop-statement': dropStatement,
  'grant-statement': (steps, { statement }) => {
    const { execute } = statement.model;
    const on = `on function ${identityOf(statement).slice('aggregate '.length)}`;
    const others = ['public', ...API_ROLES.filter((role) => !execute.includes(role))];
    const revoke = `revoke all ${on} from ${others.join(', ')}`;
    steps.add({
      identity: statement.at,
      sql:
        execute.length === 0
          ? revoke
          : `${revoke}; grant execute ${on} to ${execute.map(quoteIdent).join(', ')}`,
      stage: 'grants',
      summary: `${statement.model.label}: for ${execute.length === 0 ? 'no caller' : execute.join(', ')}`,
    });
  },
  'comment-statement': (steps, { statement }) => {
    const { comment } = statement.model;
    steps.add({
      identity: statement.at,
      sql: `comment on ${identityOf(statement)} is ${comment === null ? 'null' : quoteLiteral(comment)}`,
      stage: 'comments',
      sign: '~',
      summary: `${statement.model.label}: comment`,
    });
  },
} satisfies Partial<Planners>;

const MADE: Readonly<Record<ReturnType<typeof phaseOf>, Stage>> = {
  base: 'base-statements',
  calls: 'statements',
  last: 'last-statements',
};

function create(
  steps: StepList,
  { statement, locked }: ChangeOf<'create-statement' | 'recreate-statement'>,
  sign: '+' | '~',
): void {
  steps.add({
    ...lockOf(statement, locked),
    identity: statement.at,
    sql: (statement.normal?.definition ?? []).join('; '),
    // Types that are new may be made of it; one that is made again was dropped after these.
    stage: sign === '+' && phaseOf(statement) === 'base' ? 'new-types' : MADE[phaseOf(statement)],
    sign,
    summary: statement.model.label,
  });
}

function dropStatement(steps: StepList, { live, locked }: ChangeOf<'drop-statement'>): void {
  const drop = `drop ${live.identity}`;
  const isKept = mayStay(live) && live.used;
  steps.add({
    ...lockOf(live, locked),
    identity: `statements.${live.identity}`,
    sql: isKept
      ? `do ${quoteLiteral(`begin ${drop}; exception when dependent_objects_still_exist then null; end`)}`
      : drop,
    stage: dropStage(live),
    sign: '-',
    summary: `${live.identity} dropped${isKept ? ', unless something that is kept uses it' : ''}`,
    hazards: ['BREAKS_OLD_CODE'],
  });
}

function lockOf(
  { kind }: { readonly kind: StatementKind },
  table: string | null,
): Pick<Step, 'table' | 'lock'> {
  if (table === null) return { table, lock: 'none' };
  return { table, lock: kind === 'rule' ? 'AccessExclusive' : 'ShareUpdateExclusive' };
}

function dropStage(live: LiveStatement): Stage {
  if (phaseOf(live) === 'last') return 'drop-dependants';
  // Functions that use it have gone, and the columns have another type.
  return mayStay(live) ? 'retire' : 'drop-statements';
}

function identityOf({ normal, model }: DesiredStatement): string {
  return normal?.identity ?? model.label;
}
