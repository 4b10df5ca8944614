// Describes the operations of an API, one line each, and converts them to OpenAPI 3.1.

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type Schema = { readonly [key: string]: Json };

/** Permitted callers: everyone, holders of an API key, signed-in users, or the secret key only. */
export type Access = 'none' | 'key' | 'user' | 'admin';

export type Operation = {
  readonly summary: string;
  readonly access: Access;
  /** Optional query parameters keyed by name. */
  readonly query?: Readonly<Record<string, Schema>>;
  readonly headers?: Readonly<Record<string, Schema>>;
  /** A JSON body, or by media type. */
  readonly body?: Schema | { readonly media: Readonly<Record<string, Schema>> };
  /** Responses keyed by status. A schema describes a JSON body; a text describes anything else. */
  readonly answers: Readonly<Record<number, Schema | string>>;
};

export type ApiDescription = {
  readonly tag: string;
  readonly about: string;
  /** Operations keyed by method and path: `GET /user`, parameters in braces. */
  readonly operations: Readonly<Record<string, Operation>>;
  /** Schema names are global in the document, so they begin with the name of the API. */
  readonly schemas: Readonly<Record<string, Schema>>;
  /** Schema of every response from status 400 on. */
  readonly error: Schema;
};

export const text: Schema = { type: 'string' };
export const flag: Schema = { type: 'boolean' };
export const count: Schema = { type: 'integer', minimum: 0 };
export const anything: Schema = {};
export const dateTime: Schema = { type: 'string', format: 'date-time' };
export const uuid: Schema = { type: 'string', format: 'uuid' };
export const anyObject: Schema = { type: 'object' };
export const oneOfThese = (...values: readonly string[]): Schema => ({ type: 'string', enum: values });
export const arraySchema = (items: Schema): Schema => ({ type: 'array', items });
export const orNull = (type: string): Schema => ({ type: [type, 'null'] });
export const named = (schema: string): Schema => ({ $ref: `#/components/schemas/${schema}` });

/** Keys with `?` at their end may be left out. */
export function object(properties: Readonly<Record<string, Schema>>): Schema {
  const names = Object.keys(properties);
  return {
    type: 'object',
    properties: Object.fromEntries(
      Object.entries(properties).map(([name, schema]) => [name.replace(/\?$/, ''), schema]),
    ),
    required: names.filter((name) => !name.endsWith('?')),
  };
}

const SECURITY: Readonly<Record<Access, readonly Schema[]>> = {
  none: [{}],
  key: [{ apikey: [] }, { apikey: [], bearer: [] }],
  user: [{ apikey: [], bearer: [] }],
  admin: [{ apikey: [] }],
};

/** Returns the paths of an API below its prefix. */
export function toPaths(prefix: string, { tag, operations, error }: ApiDescription): Schema {
  const paths: Record<string, Record<string, Json>> = {};
  for (const [name, operation] of Object.entries(operations)) {
    const [method = '', path = ''] = name.split(' ');
    (paths[`${prefix}${path}`] ??= {})[method.toLowerCase()] = toOperation(tag, path, operation, error);
  }
  return paths;
}

function toOperation(tag: string, path: string, operation: Operation, error: Schema): Schema {
  const { summary, access, query = {}, headers = {}, body, answers } = operation;
  const parameters: Schema[] = [
    ...Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = '']) => ({
      name,
      in: 'path',
      required: true,
      schema: text,
    })),
    ...Object.entries(query).map(([name, schema]) => ({ name, in: 'query', schema })),
    ...Object.entries(headers).map(([name, schema]) => ({ name, in: 'header', schema })),
  ];
  return {
    tags: [tag],
    summary: access === 'admin' ? `${summary} (with the secret key)` : summary,
    security: SECURITY[access],
    ...(parameters.length > 0 && { parameters }),
    ...(body && { requestBody: { content: bodyContent(body) } }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, answer]) => [
          status,
          typeof answer === 'string'
            ? { description: answer }
            : { description: summary, content: jsonContent(answer) },
        ]),
      ),
      default: { description: 'An error', content: jsonContent(error) },
    },
  };
}

function bodyContent(body: NonNullable<Operation['body']>): Schema {
  if (!isByMedia(body)) return jsonContent(body);
  return Object.fromEntries(Object.entries(body.media).map(([media, schema]) => [media, { schema }]));
}

function isByMedia(
  body: NonNullable<Operation['body']>,
): body is { readonly media: Readonly<Record<string, Schema>> } {
  return typeof body['media'] === 'object' && !('type' in body);
}

const jsonContent = (schema: Schema): Schema => ({ 'application/json': { schema } });
