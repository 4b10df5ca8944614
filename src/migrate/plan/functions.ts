// Functions as statements: created before their body can be checked, checked when all they name is there.
import { quoteIdent, quoteLiteral } from '../../postgres/sql.ts';
import type { Change } from '../diff/change.ts';
import type { DesiredFunction } from '../schema/desired.ts';
import { createFunctionSql } from '../schema/function-sql.ts';
import { nameOf } from '../schema/qualified-name.ts';
import { onFunction, type StepList } from './step-list.ts';
import { wordsOf } from '../schema/sql-text.ts';
import { PHASE } from './step.ts';

type FunctionChange = Extract<Change, { fn: DesiredFunction }>;

/** A default may call another function, which must then be there first. */
export function inOrderOfCalls(changes: readonly Change[]): Change[] {
  const waiting = new Map(
    changes.flatMap((change) => ('fn' in change ? [[change.fn.name, change] as const] : [])),
  );
  const ordered: Change[] = [];
  const place = (change: FunctionChange): void => {
    waiting.delete(change.fn.name);
    for (const word of wordsOf(change.fn.head)) {
      const called = waiting.get(word);
      if (called) place(called);
    }
    ordered.push(...changes.filter((one) => 'fn' in one && one.fn === change.fn));
  };
  for (const change of changes) {
    if (!('fn' in change)) ordered.push(change);
    else if (waiting.has(change.fn.name)) place(change);
  }
  return ordered;
}

/** They may call each other in their defaults, so they go in one statement. */
export function dropFormerFunctions(steps: StepList, changes: readonly Change[]): void {
  const gone = changes.flatMap((change) =>
    change.kind === 'recreate-function' && change.live ? [{ fn: change.fn, live: change.live }] : [],
  );
  const [first] = gone;
  if (!first) return;
  steps.add({
    ...onFunction(first.fn),
    sql: `drop function ${gone.map(({ live }) => `${nameOf(live)}(${live.argumentTypes.join(', ')})`).join(', ')}`,
    phase: PHASE.clearFunction,
    sign: '-',
    summary: gone.map(({ live }) => `function ${live.name}(${live.identityArguments})`).join(', '),
    hazards: ['BREAKS_OLD_CODE'],
  });
}

export function planFunction(steps: StepList, change: FunctionChange): void {
  const { fn, kind } = change;
  const create = createFunctionSql(fn);
  const words = {
    'create-function': '+',
    'replace-function': '~',
    'recreate-function': '~',
    'grant-function': '~',
  } as const;
  steps.add({
    ...onFunction(fn),
    sql: create,
    part: { kind: 'function', name: fn.name },
    phase: PHASE.functions,
    sign: words[kind],
    summary: `function ${fn.name}${fn.head.slice(0, fn.head.indexOf(' language '))}`,
  });
  if (kind !== 'replace-function') grantFunction(steps, fn);
  steps.add({
    ...onFunction(fn),
    at: `${fn.at}.body`,
    sql: `set local check_function_bodies = on; ${create}`,
    phase: PHASE.bodies,
    sign: '~',
    summary: `function ${fn.name}: body checked`,
  });
}

export function grantFunction(steps: StepList, fn: DesiredFunction): void {
  // A new one has no namesake; its name is enough.
  const args = fn.normal === null ? '' : `(${fn.normal.argumentTypes.join(', ')})`;
  const name = `${nameOf(fn)}${args}`;
  steps.add({
    ...onFunction(fn),
    sql: `revoke all on function ${name} from public; grant execute on function ${name} to anon, authenticated, service_role`,
    phase: PHASE.grants,
    summary: `function ${fn.name}: grants`,
  });
}

export function dropFunction(
  steps: StepList,
  live: {
    schema: string;
    name: string;
    argumentTypes: readonly string[];
    identityArguments: string;
  },
): void {
  const name = `${quoteIdent(live.schema)}.${quoteIdent(live.name)}(${live.argumentTypes.join(', ')})`;
  // Something that is not ours may depend on it: then it is only taken from the API.
  const body = `begin drop function ${name}; exception when dependent_objects_still_exist then revoke all on function ${name} from public, anon, authenticated, service_role; end`;
  steps.add({
    identity: `rpc.${live.name}`,
    sql: `do ${quoteLiteral(body)}`,
    phase: PHASE.dropFunctions,
    sign: '-',
    summary: `function ${live.name}(${live.identityArguments})`,
    hazards: ['BREAKS_OLD_CODE'],
  });
}
