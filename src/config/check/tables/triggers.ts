// Triggers of tables, views and users: existing functions and columns, and valid combinations of timing and level.
import type { KeyPath } from '../../mistakes/mistake.ts';
import { listFunctions, returnsTrigger } from '../../schema/functions.ts';
import type { RawTable } from '../../schema/tables/tables.ts';
import type { RawTableTrigger, RawUserTrigger, RawViewTrigger } from '../../schema/tables/triggers.ts';
import { type CheckContext, didYouMean } from '../context.ts';
import { checkName } from '../name.ts';

type RawTrigger = RawUserTrigger | RawTableTrigger | RawViewTrigger;

/** Names of triggers that svc creates. */
const RESERVED = /^~?svc_/;

export function checkUserTriggers(context: CheckContext): void {
  checkTriggers(context, ['auth', 'triggers'], context.file.auth.triggers ?? []);
}

export function checkTableTriggers(context: CheckContext, path: KeyPath, table: RawTable): void {
  const triggers = table.triggers ?? [];
  const at = [...path, 'triggers'];
  checkTriggers(context, at, triggers);
  const columns = table.fields.map((field) => field.name);
  triggers.forEach((trigger, index) => {
    checkEach(context, [...at, index], trigger);
    if (!context.broken.touches([...path, 'fields']))
      checkColumns(context, [...at, index], trigger.of ?? [], columns);
  });
}

export function checkViewTriggers(
  context: CheckContext,
  path: KeyPath,
  triggers: readonly RawViewTrigger[],
): void {
  checkTriggers(context, path, triggers);
  triggers.forEach(({ timing, each, of, when }, number) => {
    const at = [...path, number];
    const isInstead = timing === 'instead_of';
    if (isInstead && each === 'statement')
      context.conflict([...at, 'each'], 'an instead_of trigger runs for each row', 'Remove each.');
    if (!isInstead && each === 'row')
      context.conflict(
        [...at, 'timing'],
        `a view does not store rows: use ${timing} for the whole statement, or instead_of for each row`,
        'Add each: statement, or write timing: instead_of.',
      );
    for (const [key, value] of Object.entries({ of, when }))
      if (isInstead && value !== undefined)
        context.conflict(
          [...at, key],
          `${key} is not valid for instead_of, because the trigger handles every row`,
          `Remove ${key}, and check the condition in the function.`,
          'key',
        );
  });
}

function checkTriggers(context: CheckContext, path: KeyPath, triggers: readonly RawTrigger[]): void {
  const names = new Map<string, number>();
  triggers.forEach((trigger, index) => {
    const at = [...path, index];
    checkLabel(context, at, trigger, names);
    checkCall(context, [...at, 'call'], trigger.call);
    const events: readonly string[] = trigger.events;
    const twice = events.findIndex((event, n) => events.indexOf(event) !== n);
    if (twice >= 0) context.reportTwice([...at, 'events', twice], `${events[twice]} is listed twice`);
    if (trigger.of !== undefined && !events.includes('update')) {
      context.conflict(
        [...at, 'of'],
        'of lists updated columns, and update is not among the events',
        'Remove of, or add update to the events.',
        'key',
      );
    }
  });
  warnOfOrder(context, path, triggers);
}

function checkLabel(
  context: CheckContext,
  at: KeyPath,
  trigger: RawTrigger,
  names: Map<string, number>,
): void {
  const path = [...at, 'name'];
  const { name } = trigger;
  if (name !== undefined) checkName(context, path, name);
  if (name !== undefined && RESERVED.test(name)) {
    context.report({
      code: 'reserved-name',
      path,
      message: `a trigger cannot be called ${name}: svc uses names with this prefix`,
      hint: 'Choose another name.',
    });
  }
  // svc derives the name of an unnamed trigger from these values.
  const label = name ?? JSON.stringify([trigger.timing, trigger.events.toSorted(byText), trigger.call]);
  const first = names.get(label);
  if (first !== undefined) {
    context.report({
      code: 'duplicate',
      path: name === undefined ? at : path,
      message:
        name === undefined
          ? `triggers[${first}] has the same timing and events and calls the same function`
          : `triggers[${first}] already has the name ${context.quote(path, name)}`,
      hint: name === undefined ? 'Give both a name.' : 'Choose another name, or remove it.',
    });
  }
  names.set(label, Number(at.at(-1)));
}

function checkCall(context: CheckContext, path: KeyPath, call: string): void {
  const { rpc } = context.file;
  const parts = call.split('.');
  const [schema = 'public', name] =
    parts.length === 1 ? ['public', call] : [parts[0], parts.slice(1).join('.')];
  const overloads = (context.functions.get(name ?? '') ?? []).filter(({ fn }) => fn.schema === schema);
  const { fn } = overloads.find((overload) => returnsTrigger(overload.fn.returns)) ?? overloads[0] ?? {};
  if (fn !== undefined && !returnsTrigger(fn.returns)) {
    context.conflict(
      path,
      `the function ${name} returns ${fn.returns}, and a trigger function must return trigger`,
      `Write rpc.${name}: { returns: { type: trigger }, … }.`,
    );
  }
  const isName = parts.length <= 2 && parts.every((part) => part !== '');
  if (!isName) {
    context.badValue(
      path,
      `${context.quote(path, call)} is not a function name`,
      'Write a name under rpc, or schema.function.',
    );
  } else if (fn === undefined && parts.length === 1 && !context.broken.covers(['rpc', call])) {
    const triggers = listFunctions(rpc).filter(({ fn }) => returnsTrigger(fn.returns));
    context.report({
      code: 'unknown-reference',
      path,
      message: `there is no function ${context.show(path, call)} under rpc`,
      hint: () =>
        didYouMean(
          call,
          triggers.map(({ name }) => name),
        ) ??
        'Declare it there with returns: { type: trigger }, or write schema.function for an existing function.',
    });
  }
}

function checkEach(context: CheckContext, at: KeyPath, trigger: RawTableTrigger): void {
  const { events, timing, each, constraint } = trigger;
  if (events.includes('truncate') && each === 'row') {
    context.conflict(
      [...at, 'events'],
      'truncate has no single rows, so its triggers run once per statement',
      'Add each: statement.',
    );
  }
  if (constraint !== undefined && (timing !== 'after' || each !== 'row')) {
    context.conflict(
      [...at, 'constraint'],
      'a constraint trigger runs after each row',
      'Write timing: after and each: row, or remove constraint.',
      'key',
    );
  }
}

function checkColumns(
  context: CheckContext,
  at: KeyPath,
  named: readonly string[],
  columns: readonly string[],
): void {
  named.forEach((column, number) => {
    const path = context.isWritten([...at, 'of', number]) ? [...at, 'of', number] : [...at, 'of'];
    if (named.indexOf(column) !== number) context.reportTwice(path, `${column} is listed twice`);
    if (columns.includes(column)) return;
    context.report({
      code: 'unknown-reference',
      path,
      message: `the table ${at[1]} has no column ${context.show(path, column)}`,
      hint: () => didYouMean(column, columns) ?? `Columns: ${columns.slice(0, 20).join(', ')}.`,
    });
  });
}

/** Warns of unnamed triggers whose order depends on generated names. */
function warnOfOrder(context: CheckContext, path: KeyPath, triggers: readonly RawTrigger[]): void {
  triggers.forEach((trigger, number) => {
    if (trigger.name !== undefined) return;
    const earlier = triggers.findIndex(
      (candidate, n) =>
        n < number &&
        candidate.name === undefined &&
        candidate.timing === trigger.timing &&
        triggerLevel(candidate) === triggerLevel(trigger) &&
        // The same function at the same time is already an error.
        candidate.call !== trigger.call &&
        candidate.events.some((event) => (trigger.events as readonly string[]).includes(event)),
    );
    if (earlier < 0) return;
    context.report({
      code: 'conflict',
      path: [...path, number],
      message: `triggers[${earlier}] and this trigger run at the same time, in the order of generated names`,
      severity: 'warning',
      hint: 'Give both a name: PostgreSQL runs such triggers in alphabetical order.',
    });
  });
}

function triggerLevel(trigger: RawTrigger): 'row' | 'statement' {
  return 'each' in trigger ? trigger.each : 'row';
}

function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
