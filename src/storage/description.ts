// `/storage/v1` in OpenAPI: what it offers. Bodies are those that the actions read.
import { z } from 'zod';
import {
  anyObject,
  type ApiDescription,
  count,
  flag,
  type Json,
  arraySchema,
  named,
  object,
  type Operation,
  orNull,
  type Schema,
  text,
} from '../lib/openapi.ts';
import { listQuery } from './actions/buckets.ts';
import { listBody, listV2Body } from './actions/list.ts';
import { copyBody, moveBody } from './actions/relocate.ts';
import { removeBody } from './actions/remove.ts';
import { signBody, signManyBody } from './actions/sign.ts';

const ENTRY = named('storage.Entry');
const OBJECT = named('storage.Object');
const STORED = object({ Id: text, Key: text });
const TOKEN = { token: text };
const RANGE = { Range: text, 'If-None-Match': text };
const BYTES = { 200: 'The file', 206: 'A part of it', 304: 'It is as the client has it' };
const IMAGE = { width: count, height: count, resize: text, quality: count, format: text };
const UPLOAD: Pick<Operation, 'headers' | 'body'> = {
  headers: { 'x-upsert': flag, 'cache-control': text, 'x-metadata': text },
  body: {
    media: {
      'application/octet-stream': { type: 'string', format: 'binary' },
      'multipart/form-data': { type: 'object', properties: { file: { type: 'string', format: 'binary' } } },
    },
  },
};
/** The protocol tus 1.0.0. */
const TUS = { 'Tus-Resumable': text };

function describeBody(schema: z.ZodType): Schema {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  return rest as Record<string, Json>;
}

const describeQuery = (schema: z.ZodObject): Readonly<Record<string, Schema>> =>
  (describeBody(schema)['properties'] ?? {}) as Readonly<Record<string, Schema>>;

const download = (summary: string, access: Operation['access'], query = {}): Operation => ({
  summary,
  access,
  query: { download: text, ...query },
  headers: RANGE,
  answers: BYTES,
});

const info = (summary: string, access: Operation['access']): Operation => ({
  summary,
  access,
  answers: { 200: named('storage.Info') },
});

const resumable = (path: string, access: Operation['access'], by: string): ApiDescription['operations'] => ({
  [`POST ${path}`]: {
    summary: `Begin a resumable upload${by}`,
    access,
    headers: { ...TUS, 'Upload-Length': count, 'Upload-Metadata': text, 'x-upsert': flag },
    answers: { 201: 'Begun; its address is in the Location header' },
  },
  [`HEAD ${path}/{upload}`]: {
    summary: `How far a resumable upload is${by}`,
    access,
    headers: TUS,
    answers: { 200: 'In the header Upload-Offset' },
  },
  [`PATCH ${path}/{upload}`]: {
    summary: `Go on with a resumable upload${by}`,
    access,
    headers: { ...TUS, 'Upload-Offset': count },
    body: { media: { 'application/offset+octet-stream': { type: 'string', format: 'binary' } } },
    answers: { 204: 'Taken' },
  },
  [`DELETE ${path}/{upload}`]: {
    summary: `Cancel a resumable upload${by}`,
    access,
    headers: TUS,
    answers: { 204: 'Cancelled' },
  },
});

export const STORAGE_DESCRIPTION: ApiDescription = {
  tag: 'storage',
  about: 'Files in buckets. A path may have slashes, which are not encoded',
  operations: {
    'GET /object/public/{bucket}/{path}': download('A file of a public bucket', 'none'),
    'GET /object/authenticated/{bucket}/{path}': download('A file that the caller may read', 'key'),
    'GET /object/{bucket}/{path}': download('A file that the caller may read', 'key'),
    'GET /object/sign/{bucket}/{path}': download('A file by its signed link', 'none', TOKEN),
    'GET /object/info/public/{bucket}/{path}': info('About a file of a public bucket', 'none'),
    'GET /object/info/authenticated/{bucket}/{path}': info('About a file', 'key'),
    'GET /object/info/{bucket}/{path}': info('About a file', 'key'),

    'POST /object/{bucket}/{path}': {
      summary: 'Upload a file',
      access: 'key',
      ...UPLOAD,
      answers: { 200: STORED },
    },
    'PUT /object/{bucket}/{path}': {
      summary: 'Upload a file in the place of another',
      access: 'key',
      ...UPLOAD,
      answers: { 200: STORED },
    },
    'POST /object/move': {
      summary: 'Move a file',
      access: 'key',
      body: describeBody(moveBody),
      answers: { 200: anyObject },
    },
    'POST /object/copy': {
      summary: 'Copy a file',
      access: 'key',
      body: describeBody(copyBody),
      answers: { 200: { allOf: [STORED, OBJECT] } },
    },
    'DELETE /object/{bucket}': {
      summary: 'Delete files',
      access: 'key',
      body: describeBody(removeBody),
      answers: { 200: arraySchema(OBJECT) },
    },
    'DELETE /object/{bucket}/{path}': {
      summary: 'Delete a file',
      access: 'key',
      answers: { 200: object({ message: text }) },
    },
    'POST /object/list/{bucket}': {
      summary: 'Files and folders below a folder',
      access: 'key',
      body: describeBody(listBody),
      answers: { 200: arraySchema(ENTRY) },
    },
    'POST /object/list-v2/{bucket}': {
      summary: 'Files, a page at a time',
      access: 'key',
      body: describeBody(listV2Body),
      answers: {
        200: object({
          hasNext: flag,
          folders: arraySchema(ENTRY),
          objects: arraySchema(ENTRY),
          'nextCursor?': text,
          'nextCursorKey?': text,
        }),
      },
    },

    'POST /object/sign/{bucket}': {
      summary: 'Signed links of several files',
      access: 'key',
      body: describeBody(signManyBody),
      answers: {
        200: arraySchema(object({ path: text, signedURL: orNull('string'), error: orNull('string') })),
      },
    },
    'POST /object/sign/{bucket}/{path}': {
      summary: 'A signed link of a file',
      access: 'key',
      body: describeBody(signBody),
      answers: { 200: object({ signedURL: text }) },
    },
    'POST /object/upload/sign/{bucket}/{path}': {
      summary: 'A link to upload a file by',
      access: 'key',
      headers: { 'x-upsert': flag },
      answers: { 200: object({ url: text, token: text }) },
    },
    'PUT /object/upload/sign/{bucket}/{path}': {
      summary: 'Upload a file by a link',
      access: 'none',
      query: TOKEN,
      ...UPLOAD,
      answers: { 200: object({ Key: text }) },
    },
    ...resumable('/upload/resumable', 'key', ''),
    ...resumable('/upload/resumable/sign', 'none', ' by a link'),

    'GET /render/image/public/{bucket}/{path}': download(
      'An image of a public bucket, changed',
      'none',
      IMAGE,
    ),
    'GET /render/image/authenticated/{bucket}/{path}': download('An image, changed', 'key', IMAGE),
    'GET /render/image/sign/{bucket}/{path}': download('An image by its signed link', 'none', TOKEN),

    'GET /bucket': {
      summary: 'The buckets that the caller may see',
      access: 'key',
      query: describeQuery(listQuery),
      answers: { 200: arraySchema(named('storage.Bucket')) },
    },
    'GET /bucket/{bucket}': { summary: 'A bucket', access: 'key', answers: { 200: named('storage.Bucket') } },
    'GET /status': { summary: 'Whether the API answers', access: 'none', answers: { 200: 'It does' } },
    'GET /version': { summary: 'What answers', access: 'none', answers: { 200: 'A name' } },
  },
  schemas: {
    'storage.Bucket': object({
      id: text,
      name: text,
      owner: text,
      public: flag,
      type: text,
      file_size_limit: orNull('integer'),
      allowed_mime_types: { type: ['array', 'null'], items: text },
      created_at: text,
      updated_at: text,
    }),
    // Folders have a name and nothing else.
    'storage.Entry': object({
      name: text,
      id: orNull('string'),
      metadata: orNull('object'),
      created_at: orNull('string'),
      updated_at: orNull('string'),
      last_accessed_at: orNull('string'),
      'key?': text,
    }),
    'storage.Object': object({
      id: text,
      name: text,
      bucket_id: text,
      owner: orNull('string'),
      owner_id: orNull('string'),
      version: text,
      metadata: orNull('object'),
      user_metadata: orNull('object'),
      created_at: text,
      updated_at: text,
      last_accessed_at: text,
    }),
    'storage.Info': object({
      id: text,
      name: text,
      bucket_id: text,
      version: text,
      size: { type: ['integer', 'null'] },
      content_type: orNull('string'),
      'metadata?': orNull('object'),
      created_at: text,
    }),
    'storage.Error': object({ statusCode: text, error: text, message: text, 'code?': text, 'hint?': text }),
  },
  error: named('storage.Error'),
};
