// Plans calls of SQL functions: chooses the declared function and the source of each argument. A parameter of a GET
// is an argument or a filter on the result, depending on the function's signature.
import type { Column, RoutineArg } from '../../catalog/catalog.ts';
import { badArguments, routineNotFound, sameArgument } from '../problem.ts';
import type { Payload } from '../request/body.ts';
import { fieldText, isScalar } from '../request/json-keys.ts';
import { BODY, FIELD, type At, type Condition, type Parameter, type Query } from '../request/query.ts';
import { chooseRoutine } from './choose-routine.ts';
import { findOverloads, type Exposed } from './exposed.ts';
import { isByEmptyName, wholeBodyArgument } from './whole-body.ts';
import type { ExposedRoutine } from './relation.ts';
import type { CallPlan, PlannedArgument } from './plan.ts';
import { argumentNamed } from './alternative-names.ts';
import { relationOrigin, type Origin } from './plan-read.ts';
import { closest } from './suggest.ts';

type CallByGet = { readonly call: CallPlan; readonly query: Query };

export function planCallByGet(
  exposed: Exposed,
  schema: string,
  name: string,
  query: Query,
  values: readonly string[],
): CallByGet {
  const routine = chooseByGet(exposed, schema, name, query);
  const given = new Map<string, number[]>();
  const conditions: Array<At<Condition>> = [...query.conditions];
  for (const parameter of query.parameters) {
    if (isArgument(exposed, routine, parameter)) {
      given.set(parameter.key, [...(given.get(parameter.key) ?? []), parameter.slot]);
    } else if (parameter.filter) {
      conditions.push(parameter.filter);
    }
  }
  if (!routine) throw notFound(exposed, schema, name, [...given.keys()], false);
  checkNames(routine, [...given.keys()], (unknown) => {
    const slot = given.get(unknown)?.[0];
    return slot === undefined ? '' : (values[slot] ?? '');
  });
  const args = givenArguments(routine, [...given.keys()]).map(({ arg, key }): PlannedArgument => {
    const slots = given.get(key) ?? [];
    return { ...toArgument(arg, key), slots: arg.variadic ? slots : slots.slice(-1) };
  });
  return { call: { routine, arguments: args, fromBody: false }, query: { ...query, conditions } };
}

/** Returns the overload that accepts the arguments of the call. */
export function chooseByGet(
  exposed: Exposed,
  schema: string,
  name: string,
  { parameters }: Pick<Query, 'parameters'>,
): ExposedRoutine | undefined {
  return chooseRoutine(findOverloads(exposed, schema, name), (routine) => [
    ...new Set(
      parameters.filter((parameter) => isArgument(exposed, routine, parameter)).map(({ key }) => key),
    ),
  ]);
}

export function chooseByPost(
  exposed: Exposed,
  schema: string,
  name: string,
  keys: readonly string[],
): ExposedRoutine | undefined {
  return chooseRoutine(findOverloads(exposed, schema, name), () => keys);
}

function isArgument(
  exposed: Exposed,
  routine: ExposedRoutine | undefined,
  { key, filter }: Parameter,
): boolean {
  const arg = routine && argumentNamed(routine, key);
  if (!arg) return !filter;
  // It is a filter only when the result has a column of that name.
  return !filter || !resultColumns(exposed, routine)?.has(key);
}

export function planCallByPost(
  exposed: Exposed,
  schema: string,
  name: string,
  keys: readonly string[],
  payload: Payload,
): CallPlan {
  const routine = chooseByPost(exposed, schema, name, keys);
  if (!routine) throw notFound(exposed, schema, name, keys, true);
  const whole = wholeBodyArgument(routine);
  if (whole) {
    const slots = isByEmptyName(whole, payload) ? [FIELD] : [BODY];
    return { routine, arguments: [{ ...toArgument(whole), slots }], fromBody: false };
  }
  checkNames(routine, keys, () => '');
  const fromBody = needsRecord(routine, payload);
  return {
    routine,
    fromBody,
    arguments: givenArguments(routine, keys).map(({ arg, key }, index) => ({
      ...toArgument(arg, key),
      slots: [FIELD - index],
    })),
  };
}

/** Returns the arguments in the function's order. `key`: name of the argument in the request. */
function givenArguments(
  routine: ExposedRoutine,
  keys: readonly string[],
): ReadonlyArray<{ readonly arg: RoutineArg; readonly key: string }> {
  const given = new Map(keys.map((key) => [argumentNamed(routine, key), key]));
  return routine.args.flatMap((arg) => {
    const key = given.get(arg);
    return key === undefined ? [] : [{ arg, key }];
  });
}

/** `Prefer: params=single-object`: the body as it is, for the only JSON parameter. */
export function planSingleObject(exposed: Exposed, schema: string, name: string): CallPlan {
  const overloads = findOverloads(exposed, schema, name);
  const routine = overloads.find((overload) => jsonTaker(overload)) ?? overloads[0];
  if (!routine) throw notFound(exposed, schema, name, [], true);
  const taker = jsonTaker(routine);
  if (!taker) {
    throw badArguments(
      `Could not find the function ${schema}.${name} with a single json parameter in the schema cache`,
      'params=single-object passes the whole body as one json or jsonb argument.',
      `The function is ${signature(routine)}.`,
    );
  }
  return { routine, arguments: [{ ...toArgument(taker), slots: [BODY] }], fromBody: false };
}

/** Returns the only required argument of a function that takes one JSON value. */
function jsonTaker({ args }: ExposedRoutine): RoutineArg | undefined {
  const takers = args.filter((arg) => arg.baseType === 'json' || arg.baseType === 'jsonb');
  const [taker, ...more] = takers;
  const required = args.filter((arg) => arg !== taker && !arg.hasDefault);
  return more.length > 0 || required.length > 0 ? undefined : taker;
}

function toArgument(
  { name, type, baseType, variadic }: RoutineArg,
  key = name,
): Omit<PlannedArgument, 'slots'> {
  return { name, key, type, variadic, isJson: baseType === 'json' || baseType === 'jsonb' };
}

/** Texts of the arguments, in the order of the plan. */
export function argumentTexts(call: CallPlan, payload: Payload): Array<string | null> {
  return call.arguments.map(({ key, isJson }) => {
    // The last of duplicate keys applies, as in PostgreSQL's json.
    const field = payload.fields.findLast((field) => field.key === key);
    if (!field) return null;
    const text = fieldText(payload.bytes, field);
    return isJson && text !== null && !payload.isText
      ? payload.bytes.toString('utf8', field.start, field.end)
      : text;
  });
}

/** Whether PostgreSQL must convert the body, because a value is an array or an object of another type than JSON. */
export function needsRecord(routine: ExposedRoutine, payload: Payload): boolean {
  return payload.fields.some((field) => {
    if (isScalar(payload.bytes, field)) return false;
    const arg = argumentNamed(routine, field.key);
    return arg !== undefined && !['json', 'jsonb', 'text', 'varchar'].includes(arg.baseType);
  });
}

/** Returns the origin for filters, embeds and order of the result. */
export function originOfCall(exposed: Exposed, routine: ExposedRoutine): Origin {
  const { returns, schema, name } = routine;
  if (returns.kind === 'composite' && returns.relation !== null) {
    const relation = exposed.relations.get(returns.relation);
    if (relation) return { ...relationOrigin(relation), name };
  }
  return { schema, name, relation: null, columns: resultColumns(exposed, routine) };
}

function resultColumns(
  exposed: Exposed,
  routine: ExposedRoutine | undefined,
): ReadonlyMap<string, Column> | undefined {
  if (routine?.returns.kind === 'composite' && routine.returns.relation !== null) {
    const relation = exposed.catalog.relations.get(routine.returns.relation);
    return relation && new Map(relation.columns.map((column) => [column.name, column]));
  }
  if (routine?.returns.kind !== 'columns') return undefined;
  return new Map(
    routine.returns.columns.map(({ name, type }) => [name, { ...PLAIN_COLUMN, name, type, baseType: type }]),
  );
}

const PLAIN_COLUMN: Omit<Column, 'name' | 'type' | 'baseType'> = {
  category: '',
  notNull: false,
  default: null,
  generated: null,
  enumLabels: null,
  comment: null,
};

function checkNames(
  routine: ExposedRoutine,
  given: readonly string[],
  readValue: (key: string) => string,
): void {
  const named = given.map((key) => argumentNamed(routine, key));
  const unknown = given.filter((_, index) => named[index] === undefined);
  const missing = routine.args.filter((arg) => !arg.hasDefault && !named.includes(arg));
  const twice = given.filter(
    (_, index) => named[index] && named.indexOf(named[index]) !== named.lastIndexOf(named[index]),
  );
  if (twice.length > 0) throw sameArgument(routine, twice);
  if (unknown.length === 0 && missing.length === 0) return;
  const sorted = [...given].sort();
  const [first] = unknown;
  const value = first === undefined ? '' : readValue(first);
  throw badArguments(
    notFoundMessage(routine.schema, routine.name, sorted),
    missing.length > 0
      ? `Missing required arguments: ${missing.map((arg) => arg.name).join(', ')}.`
      : `Unknown arguments: ${unknown.join(', ')}${value === '' ? '' : `; as a filter on the result the value would need an operator`}.`,
    `Perhaps you meant to call the function ${signature(routine)}`,
  );
}

function notFound(
  exposed: Exposed,
  schema: string,
  name: string,
  given: readonly string[],
  isPost: boolean,
): Error {
  const sorted = [...given].sort();
  const parameters =
    sorted.length === 0
      ? 'without parameters'
      : `with parameter${sorted.length === 1 ? '' : 's'} ${sorted.join(', ')}`;
  const alternative = isPost && sorted.length > 0 ? ' or with a single unnamed json/jsonb parameter' : '';
  const names = [...exposed.routines.values()].map(([routine]) => routine?.name ?? '');
  const suggestion = closest(name, names, 0.6);
  return routineNotFound(
    notFoundMessage(schema, name, sorted),
    `Searched for the function ${schema}.${name} ${parameters}${alternative}, ` +
      'but no matches were found in the schema cache.',
    suggestion
      ? `Perhaps you meant to call the function ${schema}.${suggestion}`
      : 'Only functions declared under rpc: in svc.yaml can be called.',
  );
}

function notFoundMessage(schema: string, name: string, given: readonly string[]): string {
  const parameters = given.length === 0 ? ' without parameters' : `(${given.join(', ')})`;
  return `Could not find the function ${schema}.${name}${parameters} in the schema cache`;
}

function signature({ schema, name, args }: ExposedRoutine): string {
  const names = args.map((arg) => arg.name).sort();
  return `${schema}.${name}(${names.join(', ')})`;
}
