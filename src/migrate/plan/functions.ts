// Functions as statements: created before their bodies can be checked, checked when all they name is there.
import { groupBy } from '../../lib/group-by.ts';
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import { callersOf } from '../diff/functions.ts';
import type { DesiredFunction } from '../schema/desired.ts';
import { releasedBy } from '../diff/dropped.ts';
import { looseBody } from '../schema/sql/atomic-body.ts';
import { bodyLiteral, createCheckedSql, createFunctionSql, routineWord } from '../schema/sql/function-sql.ts';
import type { LiveFunction } from '../schema/live/live-schema.ts';
import { API_ROLES, PUBLIC } from '../schema/rights/roles.ts';
import { nameOf } from '../schema/model.ts';
import { wordsOf } from '../../lib/sql/sql-text.ts';
import type { Stage } from './step.ts';
import type { ChangeOf, Planners, StepList } from './step-list.ts';

type CreateFunction = ChangeOf<'create-function' | 'replace-function' | 'recreate-function'>;

export const FUNCTIONS = {
  'create-function': createFunction,
  'replace-function': createFunction,
  'recreate-function': createFunction,
  'grant-function': (steps, { fn }) => grantFunction(steps, fn),
  'drop-function': dropFunction,
} satisfies Partial<Planners>;

/** A default may call another function, which must exist first. */
export function inOrderOfCalls(changes: readonly Change[]): Change[] {
  const pending = new Set(changes.flatMap((change) => ('fn' in change ? [change.fn] : [])));
  const byName = groupBy(pending, (fn) => fn.name);
  const ordered: Change[] = [];
  const place = (fn: DesiredFunction): void => {
    if (!pending.delete(fn)) return;
    for (const word of wordsOf(fn.head)) byName.get(word)?.forEach(place);
    ordered.push(...changes.filter((one) => 'fn' in one && one.fn === fn));
  };
  for (const change of changes) {
    if ('fn' in change) place(change.fn);
    else ordered.push(change);
  }
  return ordered;
}

/** Bodies that the server has read hold on to what they use: each is text before that changes or goes. */
export function releaseBodies(steps: StepList, changes: readonly Change[]): void {
  for (const change of changes) {
    const live = releasedBy(change);
    if (live === null) continue;
    // What else the function is stays as the server prints it, under the names of that moment.
    const body = `declare head text; begin
  select left(d.def, length(d.def) - length(pg_get_function_sqlbody(p.oid)) - 1) into strict head
    from pg_proc p cross join lateral (select pg_get_functiondef(p.oid) as def) d where p.oid = ${live.oid};
  execute head || 'as ' || ${quoteLiteral(bodyLiteral(looseBody(live.body)))};
end`;
    steps.add({
      identity: 'fn' in change ? change.fn.at : `rpc.${live.name}`,
      sql: `do ${bodyLiteral(body)}`,
      stage: 'drop-dependants',
      sign: '~',
      summary: `${live.isProcedure ? 'procedure' : 'function'} ${live.name}: body lets go of what it uses`,
    });
  }
}

/**
 * They may call each other in their defaults, so one statement drops them all. Those that take or return rows of views
 * which go must go before these, even if the file has them no longer.
 */
export function dropFormerFunctions(steps: StepList, changes: readonly Change[]): void {
  const ofViews = functionsOfViews(changes);
  const former = changes.flatMap((change) =>
    change.kind === 'recreate-function' && change.live ? [change.live] : [],
  );
  dropFormer(steps, [...ofViews], 'drop-functions-of-views');
  dropFormer(
    steps,
    former.filter((live) => !ofViews.has(live)),
    'drop-former-functions',
  );
}

/** Functions that go, and take or return rows of views that go. */
export function functionsOfViews(changes: readonly Change[]): ReadonlySet<LiveFunction> {
  const views = new Set(
    changes.flatMap((change) =>
      change.kind === 'recreate-view' || change.kind === 'drop-view' ? [change.live.name] : [],
    ),
  );
  if (views.size === 0) return new Set();
  return new Set(
    changes.flatMap((change) => {
      if ((change.kind !== 'recreate-function' && change.kind !== 'drop-function') || !change.live) return [];
      const words = wordsOf([change.live.result, ...change.live.argumentTypes].join(' '));
      return [...words].some((word) => views.has(word)) ? [change.live] : [];
    }),
  );
}

function dropFormer(steps: StepList, gone: readonly LiveFunction[], stage: Stage): void {
  const [first] = gone;
  if (!first) return;
  steps.add({
    identity: `rpc.${first.name}`,
    sql: `drop ${gone.some((live) => live.isProcedure) ? 'routine' : 'function'} ${gone.map((live) => `${nameOf(live)}(${live.argumentTypes.join(', ')})`).join(', ')}`,
    stage,
    sign: '-',
    summary: gone
      .map((live) => `${live.isProcedure ? 'procedure' : 'function'} ${live.name}(${live.identityArguments})`)
      .join(', '),
    hazards: ['BREAKS_OLD_CODE'],
  });
}

function createFunction(steps: StepList, { fn, kind }: CreateFunction): void {
  const create = createFunctionSql(fn);
  steps.add({
    identity: fn.at,
    sql: create,
    stage: stageOf({ fn, kind }),
    sign: kind === 'create-function' ? '+' : '~',
    summary: `${routineWord(fn.model)} ${fn.name}${fn.head.slice(0, fn.head.indexOf(' language '))}`,
  });
  if (kind !== 'replace-function') grantFunction(steps, fn);
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
  if (fn.isOfView) return 'functions-of-views';
  return fn.isOfRange === true && kind === 'create-function' ? 'functions-of-ranges' : 'functions';
}

function grantFunction(steps: StepList, fn: DesiredFunction): void {
  // A new one has no overloads: its name is enough.
  const args = fn.normal === null ? '' : `(${fn.normal.argumentTypes.join(', ')})`;
  const name = `${nameOf(fn)}${args}`;
  const callers = callersOf(fn.model);
  const others = ['public', ...API_ROLES.filter((role) => !callers.includes(role))];
  const routine = `${routineWord(fn.model)} ${name}`;
  const revoke = `revoke all on ${routine} from ${others.join(', ')}`;
  steps.add({
    identity: fn.at,
    sql:
      callers.length === 0
        ? revoke
        : `${revoke}; grant execute on ${routine} to ${callers.map(quoteIdent).join(', ')}`,
    stage: 'grants',
    summary: `${routineWord(fn.model)} ${fn.name}: grants`,
  });
}

function dropFunction(steps: StepList, { live }: ChangeOf<'drop-function'>): void {
  const word = live.isProcedure ? 'procedure' : 'function';
  const name = `${word} ${quoteIdent(live.schema)}.${quoteIdent(live.name)}(${live.argumentTypes.join(', ')})`;
  // Something the engine does not manage may depend on it: then it is only taken from those who may call it.
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
