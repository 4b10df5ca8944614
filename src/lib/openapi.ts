// What the descriptions of the APIs are written in: a line for each operation, and OpenAPI 3.1 of it.

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
export type Schema = { readonly [key: string]: Json };

/** Who may call: everybody, whoever has an API key, a user who is signed in, or the secret key alone. */
export type Access = 'none' | 'key' | 'user' | 'admin';

export type Operation = {
  readonly summary: string;
  readonly access: Access;
  /** By name; all of them may be left out. */
  readonly query?: Readonly<Record<string, Schema>>;
  readonly headers?: Readonly<Record<string, Schema>>;
  /** A JSON body, or by media type. */
  readonly body?: Schema | { readonly media: Readonly<Record<string, Schema>> };
  /** By status. A schema is that of a JSON body; a text says what is there in place of one. */
  readonly answers: Readonly<Record<number, Schema | string>>;
};

export type ApiDescription = {
  readonly tag: string;
  readonly about: string;
  /** By method and path: `GET /user`, parameters in braces. */
  readonly operations: Readonly<Record<string, Operation>>;
  /** Names are of the whole document: they begin with that of the API. */
  readonly schemas: Readonly<Record<string, Schema>>;
  /** What every answer from 400 on has. */
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
export const listOf = (items: Schema): Schema => ({ type: 'array', items });
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

/** The paths of an API below its prefix. */
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
    ...(body && { requestBody: { content: contentOf(body) } }),
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

function contentOf(body: NonNullable<Operation['body']>): Schema {
  if (!isByMedia(body)) return jsonContent(body);
  return Object.fromEntries(Object.entries(body.media).map(([media, schema]) => [media, { schema }]));
}

function isByMedia(
  body: NonNullable<Operation['body']>,
): body is { readonly media: Readonly<Record<string, Schema>> } {
  return typeof body['media'] === 'object' && !('type' in body);
}

const jsonContent = (schema: Schema): Schema => ({ 'application/json': { schema } });
