// Schedules: times that exist, and functions that can be called.
import { CronExpression, isTimeZone } from '../../lib/cron.ts';
import type { KeyPath } from '../mistakes/mistake.ts';
import {
  isOutput,
  isServed,
  returnsTrigger,
  WHOLE_BODY_TYPES,
  type RawSqlFunction,
} from '../schema/functions.ts';
import type { RawSchedule } from '../schema/events/schedules.ts';
import { didYouMean, type CheckContext } from './context.ts';

const MAX_SCHEDULES = 200;
const MAX_PAYLOAD_BYTES = 64 * 1024;
const FIELDS =
  'Write five fields: minute 0-59, hour 0-23, day of the month 1-31, month 1-12, day of the week 0-7. ' +
  'For example "*/15 * * * *". For intervals below a minute write every: 10s.';

export function checkSchedules(context: CheckContext): void {
  const entries = Object.entries(context.file.schedules);
  if (entries.length > MAX_SCHEDULES)
    context.badValue(
      ['schedules'],
      `the file has ${entries.length} schedules`,
      `At most ${MAX_SCHEDULES} are supported.`,
      'key',
    );
  for (const [name, schedule] of entries) {
    if (context.isFull) return;
    const path = ['schedules', name];
    if (!/^[A-Za-z0-9][\w-]{0,62}$/.test(name))
      context.badValue(
        path,
        `${JSON.stringify(name)} is not a schedule name`,
        'Use up to 63 letters, digits, - and _.',
        'key',
      );
    checkTimes(context, path, schedule);
    checkTarget(context, path, schedule);
  }
}

function checkTimes(context: CheckContext, path: KeyPath, { cron, everyMs, timezone }: RawSchedule): void {
  if (cron !== undefined && everyMs !== undefined) {
    context.conflict(
      [...path, 'every'],
      'a schedule has either cron or every',
      'Remove one of the two.',
      'key',
    );
    return;
  }
  if (everyMs !== undefined && timezone !== undefined)
    context.conflict(
      [...path, 'timezone'],
      'an interval does not depend on the time zone',
      'Remove timezone, or write cron instead of every.',
      'key',
    );
  if (cron === undefined) {
    if (everyMs === undefined)
      context.report({
        code: 'missing-key',
        path: [...path, 'cron'],
        message: '"cron" is missing',
        hint: 'Write cron: "0 7 * * *" for 7:00 each day, or every: 5m.',
        part: 'key',
      });
    return;
  }
  if (timezone !== undefined && !isTimeZone(timezone)) {
    const at = [...path, 'timezone'];
    context.badValue(
      at,
      `${context.quote(at, timezone)} is not a time zone`,
      () =>
        didYouMean(timezone, Intl.supportedValuesOf('timeZone')) ??
        'Use an IANA name, for example Europe/Berlin or UTC.',
    );
    return;
  }
  checkCron(context, [...path, 'cron'], cron, timezone ?? 'UTC');
}

function checkCron(context: CheckContext, at: KeyPath, cron: string, timezone: string): void {
  const shown = context.quote(at, cron);
  try {
    if (new CronExpression(cron, timezone).next(new Date()) === undefined)
      context.badValue(at, `${shown} never occurs`, 'Check the day of the month and the month.');
  } catch (error) {
    const reason = error instanceof Error ? error.message.replace(/^CronPattern: /, '') : String(error);
    context.badValue(at, `${shown} is not a cron expression: ${reason}`, FIELDS);
  }
}

function checkTarget(context: CheckContext, path: KeyPath, schedule: RawSchedule): void {
  if (schedule.function !== undefined && schedule.rpc !== undefined) {
    context.conflict(
      [...path, 'rpc'],
      'a schedule calls either a function or an rpc',
      'Remove one of the two.',
      'key',
    );
    return;
  }
  const { payload = {} } = schedule;
  if (Buffer.byteLength(JSON.stringify(payload)) > MAX_PAYLOAD_BYTES)
    context.badValue(
      [...path, 'payload'],
      'the payload is larger than 64 KB',
      'Store the data in a table or a file, and pass its id.',
    );
  if (schedule.function !== undefined) checkCodeTarget(context, [...path, 'function'], schedule.function);
  else if (schedule.rpc !== undefined) checkSqlTarget(context, path, schedule.rpc, payload);
  else
    context.report({
      code: 'missing-key',
      path: [...path, 'function'],
      message: '"function" is missing',
      hint: 'Name a code function, or an SQL function with rpc: <name>.',
      part: 'key',
    });
}

function checkCodeTarget(context: CheckContext, at: KeyPath, name: string): void {
  const { functions } = context.file;
  const fn = Object.hasOwn(functions, name) ? functions[name] : undefined;
  if (fn === undefined) {
    context.report({
      code: 'unknown-reference',
      path: at,
      message: `there is no function ${context.show(at, name)}`,
      hint: () => didYouMean(name, Object.keys(functions)) ?? 'Declare it under functions.',
    });
    return;
  }
  if (fn.http) {
    context.report({
      code: 'conflict',
      severity: 'warning',
      path: at,
      message: `${fn.authRequired ? 'every signed-in user' : 'everyone'} can also call ${name} over HTTP`,
      hint: `Add http: false to functions.${name}, or check ctx.event in the function.`,
    });
  }
}

function checkSqlTarget(context: CheckContext, path: KeyPath, key: string, payload: unknown): void {
  const at = [...path, 'rpc'];
  const { rpc } = context.file;
  const fn = Object.hasOwn(rpc, key) ? rpc[key] : undefined;
  if (fn === undefined) {
    context.report({
      code: 'unknown-reference',
      path: at,
      message: `there is no SQL function ${context.show(at, key)}`,
      hint: () => didYouMean(key, Object.keys(rpc)) ?? 'Declare it under rpc.',
    });
    return;
  }
  if (fn.kind === 'procedure' || returnsTrigger(fn.returns)) {
    const kind = fn.kind === 'procedure' ? 'a procedure' : 'a trigger function';
    context.conflict(at, `${key} is ${kind}, which a schedule cannot call`, 'Name a function.');
    return;
  }
  const roles = fn.execute ?? (isServed(fn) ? undefined : []);
  if (roles !== undefined && !roles.some((role) => role === 'service_role' || role === 'public'))
    context.conflict(
      at,
      `service_role cannot run ${key}`,
      `Schedules call SQL functions as service_role: add execute: [service_role] to rpc.${key}.`,
    );
  checkArguments(context, path, fn, payload);
}

function checkArguments(context: CheckContext, path: KeyPath, fn: RawSqlFunction, payload: unknown): void {
  const at = [...path, 'payload'];
  const args = fn.args.filter((arg) => !isOutput(arg) || arg.mode === 'inout');
  const [only] = args;
  if (only && args.length === 1 && only.name === undefined) {
    if (!WHOLE_BODY_TYPES.includes(only.type.toLowerCase()) || only.type.toLowerCase() === 'bytea')
      context.conflict(
        [...path, 'rpc'],
        'the argument of the function has no name',
        'Give the argument a name, or the type jsonb.',
      );
    return;
  }
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) {
    context.badValue(at, 'the payload of an SQL function must be a map', 'Write its arguments by name.');
    return;
  }
  const names = args.flatMap(({ name }) => (name === undefined ? [] : [name]));
  for (const name of Object.keys(payload))
    if (!names.includes(name))
      context.report({
        code: 'unknown-reference',
        path: [...at, name],
        message: `the function has no argument ${name}`,
        hint: didYouMean(name, names) ?? 'Declare it under args.',
        part: 'key',
      });
  const missing = args.filter(({ name, required }) => required && name !== undefined && !(name in payload));
  if (missing.length > 0)
    context.badValue(
      context.isWritten(at) ? at : [...path, 'rpc'],
      `the payload lacks ${missing.map(({ name }) => name).join(', ')}`,
      'The arguments are required.',
    );
}
