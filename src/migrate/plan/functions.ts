// Statements for functions. They are created without a check of their bodies. The last steps check the bodies, when all
// objects exist.
import { groupBy } from '../../lib/group-by.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { type ChangeOf, ofKind } from '../diff/change-kinds.ts';
import { executingRoles } from '../diff/functions.ts';
import type { DesiredFunction } from '../schema/desired.ts';
import { textBody } from '../schema/sql/atomic-body.ts';
import { bodyLiteral, createCheckedSql, createFunctionSql, routineWord } from '../schema/sql/function-sql.ts';
import type { LiveFunction } from '../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { quoteName } from '../schema/model.ts';
import { sqlWords } from '../../lib/sql/sql-text.ts';
import type { Stage } from './step.ts';
import type { Planners, StepList } from './step-list.ts';

type CreateFunction = ChangeOf<'create-function' | 'replace-function' | 'recreate-function'>;

export const FUNCTIONS = {
  'create-function': createFunction,
  'replace-function': createFunction,
  'recreate-function': createFunction,
  'grant-function': (steps, { fn, opens }) => grantFunction(steps, fn, opens),
  'drop-function': dropFunction,
} satisfies Partial<Planners>;

/** Orders functions so that those which argument defaults call come first. */
export function inOrderOfCalls(changes: readonly Change[]): Change[] {
  const pending = new Set(changes.flatMap((change) => ('fn' in change ? [change.fn] : [])));
  const byName = groupBy(pending, (fn) => fn.name);
  const ordered: Change[] = [];
  const place = (fn: DesiredFunction): void => {
    if (!pending.delete(fn)) return;
    for (const word of sqlWords(fn.head)) byName.get(word)?.forEach(place);
    ordered.push(...changes.filter((one) => 'fn' in one && one.fn === fn));
  };
  for (const change of changes) {
    if ('fn' in change) place(change.fn);
    else ordered.push(change);
  }
  return ordered;
}

/** Replaces parsed bodies by text: the objects that a parsed body uses cannot be changed or dropped. */
export function releaseBodies(steps: StepList, changes: readonly Change[]): void {
  for (const change of ofKind(changes, 'replace-function', 'recreate-function', 'drop-function')) {
    const { live } = change;
    if (!live?.atomic) continue;
    // The head of the function is printed when the statement runs, because renames may come before it.
    const body = `declare head text; begin
  select left(d.def, length(d.def) - length(pg_get_function_sqlbody(p.oid)) - 1) into strict head
    from pg_proc p cross join lateral (select pg_get_functiondef(p.oid) as def) d where p.oid = ${live.oid};
  execute head || 'as ' || ${quoteLiteral(bodyLiteral(textBody(live.body)))};
end`;
    steps.add({
      identity: 'fn' in change ? change.fn.at : `rpc.${live.name}`,
      sql: `do ${bodyLiteral(body)}`,
      stage: 'drop-dependants',
      sign: '~',
      summary: `${live.isProcedure ? 'procedure' : 'function'} ${live.name}: body is kept as text during the change`,
    });
  }
}

/**
 * Drops functions with one statement, because they may call each other in argument defaults. Functions that take or
 * return rows of dropped views are dropped before these views.
 */
export function dropFormerFunctions(steps: StepList, changes: readonly Change[]): void {
  const ofViews = functionsOfViews(changes);
  const former = ofKind(changes, 'recreate-function').flatMap(({ live }) => live ?? []);
  dropFormer(steps, [...ofViews], 'drop-functions-of-views');
  dropFormer(
    steps,
    former.filter((live) => !ofViews.has(live)),
    'drop-former-functions',
  );
}

/** Returns the dropped functions that take or return rows of dropped views. */
export function functionsOfViews(changes: readonly Change[]): ReadonlySet<LiveFunction> {
  const views = new Set(ofKind(changes, 'recreate-view', 'drop-view').map(({ live }) => live.name));
  if (views.size === 0) return new Set();
  return new Set(
    ofKind(changes, 'recreate-function', 'drop-function').flatMap(({ live }) => {
      if (live === null) return [];
      const words = sqlWords([live.result, ...live.argumentTypes].join(' '));
      return [...words].some((word) => views.has(word)) ? [live] : [];
    }),
  );
}

function dropFormer(steps: StepList, gone: readonly LiveFunction[], stage: Stage): void {
  const [first] = gone;
  if (!first) return;
  steps.add({
    identity: `rpc.${first.name}`,
    sql: `drop ${gone.some((live) => live.isProcedure) ? 'routine' : 'function'} ${gone.map((live) => `${quoteName(live)}(${live.argumentTypes.join(', ')})`).join(', ')}`,
    stage,
    sign: '-',
    summary: `${gone
      .map((live) => `${live.isProcedure ? 'procedure' : 'function'} ${live.name}(${live.identityArguments})`)
      .join(', ')}${stage === 'drop-former-functions' ? ' (made again)' : ''}`,
    hazards: ['BREAKS_OLD_CODE'],
  });
}

function createFunction(steps: StepList, { fn, kind, opens = [] }: CreateFunction): void {
  const create = createFunctionSql(fn);
  steps.add({
    identity: fn.at,
    sql: create,
    stage: stageOf({ fn, kind }),
    sign: kind === 'create-function' ? '+' : '~',
    summary: `${routineWord(fn.model)} ${fn.name}${fn.head.slice(0, fn.head.indexOf(' language '))}`,
  });
  if (kind !== 'replace-function') grantFunction(steps, fn, opens);
  steps.add({
    identity: fn.at,
    at: `${fn.at}.body`,
    sql: `set local check_function_bodies = on; ${createCheckedSql(fn)}`,
    stage: 'function-bodies',
    sign: '~',
    summary: `${routineWord(fn.model)} ${fn.name}: body checked`,
  });
}

function stageOf({ fn, kind }: Pick<CreateFunction, 'fn' | 'kind'>): Stage {
  if (fn.usesViewRows) return 'functions-of-views';
  return fn.isUsedByRange === true && kind === 'create-function' ? 'functions-of-ranges' : 'functions';
}

function grantFunction(steps: StepList, fn: DesiredFunction, opens: readonly string[]): void {
  // A new function has no overloads, so its name is enough.
  const args = fn.normal === null ? '' : `(${fn.normal.argumentTypes.join(', ')})`;
  const name = `${quoteName(fn)}${args}`;
  const callers = executingRoles(fn.model);
  const others = ['public', ...API_ROLES.filter((role) => !callers.includes(role))];
  // The summary names the roles that gain the right.
  const gaining = opens.length === 0 ? callers : opens;
  const routine = `${routineWord(fn.model)} ${name}`;
  const revoke = `revoke all on ${routine} from ${others.join(', ')}`;
  steps.add({
    identity: fn.at,
    sql:
      callers.length === 0
        ? revoke
        : `${revoke}; grant execute on ${routine} to ${callers.map(quoteIdent).join(', ')}`,
    stage: 'grants',
    summary: `${routineWord(fn.model)} ${fn.name}: ${gaining.length === 0 ? 'no API role' : gaining.join(', ')} may call it`,
    hazards: opens.length === 0 ? [] : ['AUTHZ_OPEN'],
  });
}

function dropFunction(steps: StepList, { live }: ChangeOf<'drop-function'>): void {
  const word = live.isProcedure ? 'procedure' : 'function';
  const name = `${word} ${quoteIdent(live.schema)}.${quoteIdent(live.name)}(${live.argumentTypes.join(', ')})`;
  // If an undeclared object depends on the function, only the right to call it is revoked.
  const callers = [PUBLIC, ...live.callers.filter((role) => role !== PUBLIC).map(quoteIdent)];
  const body = `begin drop ${name}; exception when dependent_objects_still_exist then revoke all on ${name} from ${callers.join(', ')}; end`;
  steps.add({
    identity: `rpc.${live.name}`,
    sql: `do ${quoteLiteral(body)}`,
    stage: 'drop-functions',
    sign: '-',
    summary: `${word} ${live.name}(${live.identityArguments})`,
    hazards: ['BREAKS_OLD_CODE'],
  });
}
