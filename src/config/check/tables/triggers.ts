// Triggers of tables and of the users: functions and columns that exist, and moments that go together.
import type { KeyPath } from '../../mistakes/mistake.ts';
import { listFunctions, returnsTrigger } from '../../schema/functions.ts';
import type { RawTable } from '../../schema/tables/tables.ts';
import type { RawTableTrigger, RawUserTrigger, RawViewTrigger } from '../../schema/tables/triggers.ts';
import { type CheckContext, didYouMean } from '../context.ts';
import { checkName } from '../name.ts';

type RawTrigger = RawUserTrigger | RawTableTrigger | RawViewTrigger;

/** Triggers that svc makes for itself. */
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
      context.conflict(
        [...at, 'each'],
        'what runs in place of writing a row runs for each row',
        'Remove each.',
      );
    if (!isInstead && each === 'row')
      context.conflict(
        [...at, 'timing'],
        `a view has no rows of its own: a trigger runs ${timing} the whole statement, or in place of each row`,
        'Add each: statement, or write timing: instead_of.',
      );
    for (const [key, value] of Object.entries({ of, when }))
      if (isInstead && value !== undefined)
        context.conflict(
          [...at, key],
          `${key} does not belong to instead_of: every row is written by the trigger`,
          `Remove ${key}, and decide in the function.`,
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
    const twice = events.findIndex((one, n) => events.indexOf(one) !== n);
    if (twice >= 0) context.reportTwice([...at, 'events', twice], `${events[twice]} is listed twice`);
    if (trigger.of !== undefined && !events.includes('update')) {
      context.conflict(
        [...at, 'of'],
        'of says which columns are updated, and update is not one of the events',
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
      message: `a trigger cannot be called ${name}: svc has triggers of such names`,
      hint: 'Choose another name.',
    });
  }
  // Without a name, the label in the database is made of these.
  const label = name ?? JSON.stringify([trigger.timing, trigger.events.toSorted(byText), trigger.call]);
  const first = names.get(label);
  if (first !== undefined) {
    context.report({
      code: 'duplicate',
      path: name === undefined ? at : path,
      message:
        name === undefined
          ? `triggers[${first}] is at the same moment and calls the same function`
          : `triggers[${first}] has the name ${context.quote(path, name)} already`,
      hint: name === undefined ? 'Give both a name.' : 'Choose another name, or leave it out.',
    });
  }
  names.set(label, Number(at.at(-1)));
}

function checkCall(context: CheckContext, path: KeyPath, call: string): void {
  const { rpc } = context.file;
  const parts = call.split('.');
  const [schema = 'public', own] =
    parts.length === 1 ? ['public', call] : [parts[0], parts.slice(1).join('.')];
  const named = (context.functions.get(own ?? '') ?? []).filter((one) => one.fn.schema === schema);
  const { fn } = named.find((one) => returnsTrigger(one.fn.returns)) ?? named[0] ?? {};
  if (fn !== undefined && !returnsTrigger(fn.returns)) {
    context.conflict(
      path,
      `the function ${own} returns ${fn.returns}, and a trigger calls what returns trigger`,
      `Write rpc.${own}: { returns: { type: trigger }, … }.`,
    );
  }
  const isName = parts.length <= 2 && parts.every((part) => part !== '');
  if (!isName) {
    context.badValue(
      path,
      `${context.quote(path, call)} is not the name of a function`,
      'Write a name under rpc, or schema.function.',
    );
  } else if (fn === undefined && parts.length === 1 && !context.broken.covers(['rpc', call])) {
    const triggers = listFunctions(rpc).filter((one) => returnsTrigger(one.fn.returns));
    context.report({
      code: 'unknown-reference',
      path,
      message: `there is no function ${context.show(path, call)} under rpc`,
      hint: () =>
        didYouMean(
          call,
          triggers.map(({ name }) => name),
        ) ??
        'Declare it there with returns: { type: trigger }, or write schema.function for one that the database has.',
    });
  }
}

function checkEach(context: CheckContext, at: KeyPath, trigger: RawTableTrigger): void {
  const { events, timing, each, constraint } = trigger;
  if (events.includes('truncate') && each === 'row') {
    context.conflict(
      [...at, 'events'],
      'truncate removes all rows at once: a trigger at it runs once for the statement',
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
      hint: () => didYouMean(column, columns) ?? `Its columns: ${columns.slice(0, 20).join(', ')}.`,
    });
  });
}

/** Their names decide, and nobody has chosen any. */
function warnOfOrder(context: CheckContext, path: KeyPath, triggers: readonly RawTrigger[]): void {
  triggers.forEach((trigger, number) => {
    if (trigger.name !== undefined) return;
    const other = triggers.findIndex(
      (one, n) =>
        n < number &&
        one.name === undefined &&
        one.timing === trigger.timing &&
        triggerLevel(one) === triggerLevel(trigger) &&
        // Of one function, it is an error already.
        one.call !== trigger.call &&
        one.events.some((event) => (trigger.events as readonly string[]).includes(event)),
    );
    if (other < 0) return;
    context.report({
      code: 'conflict',
      path: [...path, number],
      message: `triggers[${other}] and this one run at the same moment, in the order of the names that svc makes for them`,
      severity: 'warning',
      hint: 'Give both a name: triggers of one moment run in the order of their names.',
    });
  });
}

function triggerLevel(trigger: RawTrigger): 'row' | 'statement' {
  return 'each' in trigger ? trigger.each : 'row';
}

function byText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
