// The data API's problems and their format: four keys, always JSON, with a hint in every response. Client libraries
// know the codes PGRST…; SVC… are specific to this product.
import { formatBytes } from '../lib/bytes.ts';
import { SESSION_RESTRICTED } from '../identity/caller.ts';
import { Problem } from '../problem/problem.ts';

export type Alternative = {
  readonly cardinality: string;
  readonly embedding: string;
  readonly relationship: string;
};

/** A problem whose details are a list. Only an ambiguous embed has one. */
export class AmbiguousEmbed extends Problem<'PGRST201'> {
  readonly alternatives: readonly Alternative[];

  constructor(message: string, hint: string, alternatives: readonly Alternative[]) {
    super('PGRST201', 300, message, { hint });
    this.alternatives = alternatives;
  }
}

export const syntaxError = (part: string, raw: string, column: number, details: string): Problem =>
  new Problem('PGRST100', 400, `"failed to parse ${part} (${raw})" (line 1, column ${column})`, {
    details,
    hint: 'Names with reserved characters go in double quotes; a filter is written column=operator.value.',
  });

export const tooDeep = (part: string): Problem =>
  new Problem('PGRST100', 400, `The request is too large: ${part}`, {
    hint: 'Split the request into several smaller ones.',
  });

export const methodNotForRoutine = (method: string, allow: string): Problem =>
  new Problem('PGRST101', 405, `Cannot use the ${method} method on RPC`, {
    hint: `Allowed methods: ${allow}. Only stable and immutable functions can be called with GET.`,
    headers: { allow },
  });

export const badBody = (message: string, hint: string, details?: string): Problem =>
  new Problem('PGRST102', 400, message, { hint, details });

export const unsupportedEncoding = (encoding: string): Problem =>
  new Problem('SVC106', 415, `Content-Encoding not supported: ${encoding}`, {
    hint: 'Send the body as it is, or compressed with gzip, deflate or br.',
    headers: { 'accept-encoding': 'gzip, deflate, br' },
  });

export const unsupportedCharset = (charset: string): Problem =>
  new Problem('SVC106', 415, `Charset not supported: ${charset}`, {
    hint: 'Send the body in UTF-8.',
  });

export const invalidJson = (): Problem =>
  badBody('Empty or invalid json', 'Send a JSON object or an array of objects.');

export const rangeNotSatisfiable = (
  details: string,
  total?: number,
  headers: Readonly<Record<string, string>> = {},
): Problem =>
  new Problem('PGRST103', 416, 'Requested range not satisfiable', {
    details,
    hint: 'Ask for a range inside the result; offsets start at 0.',
    headers: total === undefined ? headers : { ...headers, 'content-range': `*/${total}` },
  });

export const badPutFilters = (): Problem =>
  new Problem('PGRST105', 405, "Filters must include all and only primary key columns with 'eq' operators", {
    hint: 'PUT writes one row: name each primary key column once, as in ?id=eq.1.',
  });

export const schemaNotExposed = (name: string, exposed: readonly string[]): Problem =>
  new Problem('PGRST106', 406, `Invalid schema: ${name}`, {
    hint: `Only the following schemas are exposed: ${exposed.join(', ')}`,
  });

export const notAcceptable = (
  wanted: string,
  hint = 'Use application/json, application/vnd.pgrst.object+json or text/csv.',
): Problem => new Problem('PGRST107', 406, `None of these media types are available: ${wanted}`, { hint });

export const notEmbedded = (name: string, alias?: string): Problem =>
  new Problem('PGRST108', 400, `'${name}' is not an embedded resource in this request`, {
    hint:
      alias === undefined
        ? `Verify that '${name}' is included in the 'select' query parameter.`
        : `Change '${name}' to '${alias}': an embed with an alias goes by its alias.`,
  });

export const badResponseHeaders = (): Problem =>
  new Problem(
    'PGRST111',
    500,
    'response.headers guc must be a JSON array composed of objects with a single key and a string value',
    { hint: 'Set it to text such as [{"X-Name": "value"}].' },
  );

export const badResponseStatus = (): Problem =>
  new Problem('PGRST112', 500, 'response.status guc must be a valid status code', {
    hint: 'Set it to a number from 200 to 599.',
  });

export const pageOnPut = (): Problem =>
  new Problem('PGRST114', 400, 'limit/offset querystring parameters are not allowed for PUT', {
    hint: 'Remove limit and offset.',
  });

export const putMismatch = (): Problem =>
  new Problem('PGRST115', 400, 'Payload values do not match URL in primary key column(s)', {
    hint: 'The body must hold exactly the row that the URL names.',
  });

export const notSingular = (rows: string | number): Problem =>
  new Problem('PGRST116', 406, 'Cannot coerce the result to a single JSON object', {
    details: `The result contains ${rows} rows`,
    hint: 'Narrow the filters to one row, or ask for an array.',
  });

export const notSingularWrite = (rows: string | number): Problem =>
  new Problem('PGRST116', 406, 'Cannot coerce the result to a single JSON object', {
    details: `The request affects ${rows} rows`,
    hint: 'Nothing was changed. Narrow the filters to one row, or ask for an array.',
  });

export const unsupportedMethod = (method: string): Problem =>
  new Problem('PGRST117', 405, `Unsupported HTTP method: ${method}`, {
    hint: 'Use GET, HEAD, POST, PATCH, PUT, DELETE or OPTIONS.',
  });

export const methodNotForRelation = (method: string, relation: string, allow: string): Problem =>
  new Problem('PGRST117', 405, `Cannot use the ${method} method on '${relation}'`, {
    hint: `Allowed methods: ${allow}. PostgreSQL can only write to a view over one table, or with INSTEAD OF triggers.`,
    headers: { allow },
  });

export const relatedOrderImpossible = (origin: string, target: string): Problem =>
  new Problem('PGRST118', 400, `A related order on '${target}' is not possible`, {
    details: `'${origin}' and '${target}' do not form a many-to-one or one-to-one relationship`,
    hint: `Order the rows inside '${target}' with ${target}.order instead.`,
  });

export const badRaise = (details: string, hint: string): Problem =>
  new Problem('PGRST121', 500, 'Could not parse JSON in the "RAISE SQLSTATE \'PGRST\'" error', {
    details,
    hint,
  });

export const invalidPreferences = (tokens: readonly string[]): Problem =>
  new Problem('PGRST122', 400, 'Invalid preferences given with handling=strict', {
    details: `Invalid preferences: ${tokens.join(', ')}`,
    hint: 'Remove them or send handling=lenient.',
  });

/** Also with `handling=lenient`. */
export const invalidGuard = (token: string): Problem =>
  new Problem('PGRST122', 400, 'Invalid preference: a guard of a write must not be ignored', {
    details: `Invalid preferences: ${token}`,
    hint: 'Write max-affected=<number of rows>, and tx=rollback or tx=commit, in lower case.',
  });

export const tooManyAffected = (rows: string | number): Problem =>
  new Problem('PGRST124', 400, 'Query result exceeds max-affected preference constraint', {
    details: `The query affects ${rows} rows`,
    hint: 'Nothing was changed. Narrow the filters or raise max-affected.',
  });

export const invalidPath = (): Problem =>
  new Problem('PGRST125', 404, 'Invalid path specified in request URL', {
    hint: 'Paths are /<table> and /rpc/<function>.',
  });

export const spreadAggregate = (): Problem =>
  new Problem('PGRST127', 400, 'Feature not implemented', {
    details: 'Aggregates are not implemented for one-to-many or many-to-many spreads.',
    hint: 'Embed the relation without the spread operator.',
  });

export const maxAffectedOnSingle = (): Problem =>
  new Problem(
    'PGRST128',
    400,
    'Function must return SETOF or TABLE when max-affected preference is used with handling=strict',
    { hint: 'Remove max-affected from this call.' },
  );

export const noRelationship = (
  origin: string,
  target: string,
  hint: string | undefined,
  schema: string,
  suggestion: string | undefined,
): Problem =>
  new Problem(
    'PGRST200',
    400,
    `Could not find a relationship between '${origin}' and '${target}' in the schema cache`,
    {
      details:
        `Searched for a foreign key relationship between '${origin}' and '${target}'` +
        `${hint === undefined ? '' : ` using the hint '${hint}'`} in the schema '${schema}', ` +
        'but no matches were found.',
      hint: suggestion
        ? `Perhaps you meant '${suggestion}' instead of '${target}'.`
        : `Declare a foreign_key between '${origin}' and '${target}' in svc.yaml, or correct the name.`,
    },
  );

export const routineNotFound = (message: string, details: string, hint: string): Problem =>
  new Problem('PGRST202', 404, message, { details, hint });

export const badArguments = (message: string, details: string, hint: string): Problem =>
  new Problem('PGRST202', 400, message, { details, hint });

export const ambiguousRoutine = (
  routines: ReadonlyArray<{
    readonly schema: string;
    readonly name: string;
    readonly args: ReadonlyArray<{ readonly name: string; readonly type: string }>;
  }>,
): Problem => {
  const signatures = routines.map(
    ({ schema, name, args }) =>
      `${schema}.${name}(${args.map((arg) => `${arg.name} => ${arg.type}`).join(', ')})`,
  );
  return new Problem(
    'PGRST203',
    300,
    `Could not choose the best candidate function between: ${signatures.join(', ')}`,
    {
      hint:
        'Try renaming the parameters or the function itself in the database so function overloading can be ' +
        'resolved',
    },
  );
};

export const sameArgument = (routine: { readonly name: string }, names: readonly string[]): Problem =>
  new Problem(
    'PGRST202',
    400,
    `${names.map((name) => `'${name}'`).join(' and ')} are the same argument of '${routine.name}'`,
    {
      hint: 'One is the earlier name of the other (renamed_from in svc.yaml): send one of them.',
    },
  );

export const unknownColumn = (column: string, relation: string): Problem =>
  new Problem('PGRST204', 400, `Could not find the '${column}' column of '${relation}' in the schema cache`, {
    hint: `Declare '${column}' under fields of '${relation}' in svc.yaml, or correct the name.`,
  });

/** A row with both names of a column during the rollout of a rename. Either name is valid alone. */
export const sameColumn = (name: string, otherName: string, relation: string): Problem =>
  new Problem('PGRST204', 400, `'${name}' and '${otherName}' are the same column of '${relation}'`, {
    hint: 'One is the earlier name of the other (renamed_from in svc.yaml): send one of them.',
  });

export const relationNotFound = (schema: string, name: string, suggestion: string | undefined): Problem =>
  new Problem('PGRST205', 404, `Could not find the table '${schema}.${name}' in the schema cache`, {
    hint: suggestion
      ? `Perhaps you meant the table '${schema}.${suggestion}'`
      : 'Only tables declared in svc.yaml are served.',
  });

export const loginRequired = (): Problem =>
  new Problem('PGRST302', 401, 'Anonymous access is disabled', {
    hint: 'This function needs a signed-in user: send Authorization: Bearer <access token>.',
    headers: { 'www-authenticate': 'Bearer' },
  });

export const noApiKey = (): Problem =>
  new Problem('SVC100', 401, 'No API key found in request', {
    hint: 'Send the publishable key in the apikey header.',
  });

export const unknownApiKey = (): Problem =>
  new Problem('SVC100', 401, 'Invalid API key', {
    hint: 'Use the publishable or the secret key of this project.',
  });

export const sessionRestricted = (): Problem =>
  new Problem('insufficient_aal', 403, SESSION_RESTRICTED, {
    hint: 'Verify the second factor of the account; the new session has full access.',
  });

export const badToken = (code: 'PGRST301' | 'PGRST303', message: string, details?: string): Problem =>
  new Problem(code, 401, message, {
    details,
    hint: 'Sign in again or refresh the session; without a session send only the apikey header.',
    headers: {
      'www-authenticate': `Bearer error="invalid_token", error_description="${message.replaceAll('"', "'")}"`,
    },
  });

export const limitOnWrite = (parameter: string): Problem =>
  new Problem('SVC109', 400, `${parameter} does not restrict a write`, {
    hint: 'Select the rows with filters, such as id=in.(1,2), or set an upper bound with Prefer: max-affected.',
  });

export const orderWithoutRows = (): Problem =>
  new Problem('SVC109', 400, 'order does not restrict a write', {
    details: 'order sorts the rows of the answer, and this answer has none.',
    hint: 'Remove order, or ask for the rows with Prefer: return=representation (select() in supabase-js).',
  });

export const havingNeedsAggregate = (): Problem =>
  new Problem('SVC110', 400, 'having requires an aggregate in select', {
    hint: 'Add an aggregate such as n:count() to select, or use a plain filter.',
  });

export const unknownAggregate = (name: string): Problem =>
  new Problem('SVC111', 400, `having refers to unknown aggregate '${name}'`, {
    hint: 'Select an aggregate with that alias.',
  });

export const requestDeadline = (): Problem =>
  new Problem('SVC102', 504, 'The request took too long', {
    hint: 'Narrow the request, add an index, or raise server.timeouts.request.',
  });

/** Response when the server stops. Also used for a client that has disconnected, which does not read it. */
export const givenUp = (): Problem =>
  new Problem('SVC105', 503, 'The request was cancelled', {
    hint: 'The server is stopping: try again.',
    headers: { 'retry-after': '1' },
  });

export const responseTooLarge = (maxBytes: number): Problem =>
  new Problem('SVC103', 400, `The answer would be larger than ${formatBytes(maxBytes)}`, {
    hint:
      'Ask for fewer rows with limit or Range, or for fewer columns with select; ' +
      'server.max_response_size is the limit.',
  });

export const undefinedColumn = (relation: string, column: string): Problem =>
  new Problem('42703', 400, `column ${relation}.${column} does not exist`, {
    hint: `Columns are declared under fields of '${relation}' in svc.yaml.`,
  });

export const duplicateEmbed = (name: string): Problem =>
  new Problem('42712', 400, `table name "${name}" specified more than once`, {
    hint: 'Give each embed a different alias: first:relation(...), second:relation(...).',
  });

export const badTimeZone = (zone: string): Problem =>
  new Problem('22023', 400, `invalid value for parameter "TimeZone": "${zone}"`, {
    hint: 'Write an offset from -15:59 to +15:59, such as +05:30 for India, or a name such as Asia/Kolkata.',
  });

export const whereRequired = (verb: 'UPDATE' | 'DELETE'): Problem =>
  new Problem('21000', 400, `${verb} requires a WHERE clause`, {
    hint: 'Add a filter; a filter that is true for every row, such as id=not.is.null, means all of them.',
  });
