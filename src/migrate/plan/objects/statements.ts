// Steps for objects that statements declare. They use the statement as the server prints it, with qualified names.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';
import { canKeepStatement } from '../../diff/objects/statements.ts';
import type { ChangeOf } from '../../diff/change-kinds.ts';
import { API_ROLES } from '../../schema/rights/roles.ts';
import {
  type DesiredStatement,
  type LiveStatement,
  statementPhase,
  type StatementKind,
} from '../../schema/statements.ts';
import type { Stage, Step } from '../step.ts';
import type { Planners, StepList } from '../step-list.ts';

export const STATEMENTS = {
  'create-statement': (steps, change) => create(steps, change, '+'),
  'recreate-statement': (steps, change) => {
    const { statement, live } = change;
    steps.add({
      ...lockOf(live, change.locked),
      identity: statement.at,
      sql: `drop ${live.identity}`,
      stage: statementPhase(live) === 'last' ? 'drop-dependants' : 'drop-statements',
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

const MADE: Readonly<Record<ReturnType<typeof statementPhase>, Stage>> = {
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
    // New types may use a new object. An object that is created again was dropped after its users.
    stage:
      sign === '+' && statementPhase(statement) === 'base' ? 'new-types' : MADE[statementPhase(statement)],
    sign,
    summary: statement.model.label,
  });
}

function dropStatement(steps: StepList, { live, locked }: ChangeOf<'drop-statement'>): void {
  const drop = `drop ${live.identity}`;
  const isKept = canKeepStatement(live) && live.used;
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
  if (statementPhase(live) === 'last') return 'drop-dependants';
  // The functions that use it are dropped, and the columns have another type.
  return canKeepStatement(live) ? 'retire' : 'drop-statements';
}

function identityOf({ normal, model }: DesiredStatement): string {
  return normal?.identity ?? model.label;
}
