// The operations of the S3 protocol, each a thin translation to the action of the storage API that does the work:
// permissions, limits and crash safety are theirs.
import type { FastifyReply } from 'fastify';
import { sql } from '../../postgres/sql.ts';
import { listPage, isFolder, type Entry } from '../actions/list.ts';
import { copyAs } from '../actions/relocate.ts';
import { remove } from '../actions/remove.ts';
import { uploadAs } from '../actions/upload.ts';
import { requireBucket } from '../objects/bucket.ts';
import { during } from '../http/caller.ts';
import { isHeaderValue, servedType } from '../objects/content-type.ts';
import { checkedValue, type UploadFields } from '../uploads/incoming.ts';
import { readAddress } from '../objects/object-path.ts';
import { findObject, findObjectAs, readAs, type StoredObject } from '../objects/object.ts';
import { objectNotFound, toStorageProblem } from '../problem.ts';
import { serve } from '../http/serve.ts';
import { headerOf, sendXml, type Call } from './call.ts';
import { openPayload, readPayload } from './payload.ts';
import {
  accessDenied,
  invalidArgument,
  malformedXml,
  methodNotAllowed,
  notImplemented,
  preconditionFailed,
} from './problem.ts';
import { childText, element, parseXml, type XmlElement } from './xml.ts';

const MAX_KEYS = 1000;
const MAX_XML_BYTES = 2 * 1024 * 1024;
const PLACEHOLDER = '.emptyFolderPlaceholder';

/** S3 has empty objects named like folders; here a folder is kept alive by a placeholder in it. */
export function toName(key: string): string {
  return key.endsWith('/') ? key + PLACEHOLDER : key;
}

export async function listBuckets(call: Call): Promise<FastifyReply> {
  const rows = await readAs(
    call.context.callers,
    during(call.caller, 'storage.bucket.list', call.request),
    sql`select json_build_array(id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
      from storage.buckets order by id`,
  );
  const buckets = rows.map((json) => {
    const [id = '', created = ''] = JSON.parse(json) as string[];
    return element('Bucket', [element('Name', id), element('CreationDate', created)]);
  });
  return sendXml(call, element('ListAllMyBucketsResult', [owner(), element('Buckets', buckets)]));
}

function owner(): XmlElement {
  return element('Owner', [element('ID', 'svc'), element('DisplayName', 'svc')]);
}

export async function headBucket(call: Call): Promise<FastifyReply> {
  requireBucket(call.context.snapshot().config, call.bucket);
  return await call.reply.code(200).header('x-amz-bucket-region', 'us-east-1').send();
}

export async function describeBucket(call: Call, root: string): Promise<FastifyReply> {
  requireBucket(call.context.snapshot().config, call.bucket);
  return await sendXml(call, element(root, ''));
}

export function refuseBucketChange(): never {
  throw methodNotAllowed();
}

/** Both versions of the listing; they differ in how a page names where the next one begins. */
export async function listObjects(call: Call): Promise<FastifyReply> {
  const { query } = call;
  const { id: bucket } = requireBucket(call.context.snapshot().config, call.bucket);
  const second = query.get('list-type') === '2';
  if (!second && query.has('list-type')) throw invalidArgument('list-type must be 2');
  const prefix = query.get('prefix') ?? '';
  const delimiter = query.get('delimiter') ?? '';
  if (delimiter !== '' && delimiter !== '/') throw notImplemented('The only delimiter is /');
  const encoding = query.get('encoding-type');
  if (encoding !== undefined && encoding !== 'url') throw invalidArgument('encoding-type must be url');
  const wanted = query.get('max-keys') ?? String(MAX_KEYS);
  if (!/^\d{1,10}$/.test(wanted)) throw invalidArgument('max-keys must be a number');
  const limit = Math.min(Number(wanted), MAX_KEYS);
  const token = query.get('continuation-token');
  const after = token === undefined ? (query.get('start-after') ?? '') : readContinuation(token);
  const start = second ? after : (query.get('marker') ?? '');

  const { page, hasNext } =
    limit === 0
      ? { page: [], hasNext: false }
      : await listPage(
          call.context,
          during(call.caller, second ? 'storage.object.list_v2' : 'storage.object.list', call.request),
          {
            bucket,
            prefix,
            exact: false,
            descending: false,
            cursor: start === '' ? undefined : { k: start, o: 'asc', c: 'name' },
            limit,
          },
          'name',
          delimiter !== '',
        );
  const last = page.at(-1)?.name ?? '';
  const shown = (text: string): string => (encoding === 'url' ? encodeURIComponent(text) : text);
  const optional = (name: string, value: string | undefined): XmlElement[] =>
    value === undefined || value === '' ? [] : [element(name, shown(value))];
  return sendXml(
    call,
    element('ListBucketResult', [
      element('Name', bucket),
      element('Prefix', shown(prefix)),
      ...optional('Delimiter', delimiter),
      element('MaxKeys', String(limit)),
      ...optional('EncodingType', encoding),
      ...(second
        ? [
            element('KeyCount', String(page.length)),
            ...optional('StartAfter', query.get('start-after')),
            ...(token === undefined ? [] : [element('ContinuationToken', token)]),
            ...(hasNext ? [element('NextContinuationToken', Buffer.from(last).toString('base64url'))] : []),
          ]
        : [element('Marker', shown(start)), ...(hasNext ? [element('NextMarker', shown(last))] : [])]),
      element('IsTruncated', String(hasNext)),
      ...page.filter((entry) => !isFolder(entry)).map((entry) => contents(entry, shown)),
      ...page.filter(isFolder).map(({ name }) => element('CommonPrefixes', [element('Prefix', shown(name))])),
    ]),
  );
}

function contents(entry: Entry, shown: (text: string) => string): XmlElement {
  const metadata: Readonly<Record<string, unknown>> =
    typeof entry.metadata === 'object' && entry.metadata !== null ? { ...entry.metadata } : {};
  const { eTag, size } = metadata;
  return element('Contents', [
    element('Key', shown(entry.name)),
    element('LastModified', entry.updated_at ?? ''),
    element('ETag', typeof eTag === 'string' ? eTag : ''),
    element('Size', typeof size === 'number' ? String(size) : '0'),
    element('StorageClass', 'STANDARD'),
  ]);
}

function readContinuation(token: string): string {
  const key = Buffer.from(token, 'base64url').toString('utf8');
  if (key === '' || Buffer.from(key).toString('base64url') !== token) {
    throw invalidArgument('The continuation token is not one of ours');
  }
  return key;
}

const OVERRIDES: Readonly<Record<string, string>> = {
  'response-cache-control': 'cache-control',
  'response-content-disposition': 'content-disposition',
  'response-content-encoding': 'content-encoding',
  'response-content-language': 'content-language',
  'response-expires': 'expires',
};
export const OVERRIDE_PARAMETERS: readonly string[] = [...Object.keys(OVERRIDES), 'response-content-type'];

/** GET and HEAD of an object. */
export async function getObject(call: Call): Promise<FastifyReply> {
  const { context, caller, request, reply } = call;
  const bucket = requireBucket(context.snapshot().config, call.bucket);
  const address = { bucket: bucket.id, name: call.name };
  const as = during(caller, 'storage.object.get_authenticated', request);
  const find = (): Promise<StoredObject | undefined> =>
    bucket.public ? findObject(context.owner, address) : findObjectAs(context.callers, as, address);
  const object = await find();
  if (!object) throw objectNotFound();
  const headers = { ...metadataHeaders(object), ...overrides(call) };
  return await serve(context, request, reply, { object, shared: false, headers }, find);
}

function overrides({ query }: Call): Record<string, string> {
  const given = Object.entries(OVERRIDES).flatMap(([parameter, name]) => {
    const value = query.get(parameter);
    return value === undefined ? [] : [[name, value] as const];
  });
  if (given.some(([, value]) => !isHeaderValue(value))) throw invalidArgument('This cannot be a header');
  const type = query.get('response-content-type');
  if (type === undefined) return Object.fromEntries(given);
  // Asked for or stored, a type that a browser would run is not served as one.
  const { contentType, policy } = servedType(type);
  return {
    ...Object.fromEntries(given),
    'content-type': contentType,
    ...(policy === undefined ? {} : { 'content-security-policy': policy }),
  };
}

function metadataHeaders({ user_metadata: metadata }: StoredObject): Record<string, string> {
  return Object.fromEntries(
    Object.entries(metadata ?? {}).flatMap(([name, value]) =>
      typeof value === 'string' && isHeaderValue(value) && /^[a-z0-9_.-]+$/i.test(name)
        ? [[`x-amz-meta-${name.toLowerCase()}`, value] as const]
        : [],
    ),
  );
}

export async function putObject(call: Call): Promise<FastifyReply> {
  const { context, request, signer, caller, bucket, name } = call;
  const once = readWriteCondition(call);
  checkUnsupported(call);
  const fields = readFields(call);
  const stored = await uploadAs(
    context,
    request,
    () => {
      const payload = openPayload(request, signer);
      return Promise.resolve({ ...payload, fields, exact: true, finish: () => Promise.resolve(fields) });
    },
    { caller, address: { bucket, name }, upsert: !once },
  ).catch((error: unknown) => {
    throw once && isTaken(error) ? preconditionFailed() : error;
  });
  const eTag = stored.metadata?.['eTag'];
  return await call.reply
    .code(200)
    .header('etag', typeof eTag === 'string' ? eTag : '')
    .send();
}

/** `If-None-Match: *` is the one condition on writing that the database can keep for us. */
function readWriteCondition(call: Call): boolean {
  if (headerOf(call, 'if-match') !== undefined) throw notImplemented('If-Match cannot be used for writing');
  const condition = headerOf(call, 'if-none-match');
  if (condition !== undefined && condition !== '*') throw notImplemented('If-None-Match must be *');
  return condition !== undefined;
}

function isTaken(error: unknown): boolean {
  return toStorageProblem(error).code === 'ResourceAlreadyExists';
}

/** What would change who may read the bytes or how they are kept is refused; silence would be a promise. */
function checkUnsupported(call: Call): void {
  const acl = headerOf(call, 'x-amz-acl') ?? 'private';
  if (acl !== 'private' && acl !== 'bucket-owner-full-control') {
    throw notImplemented('Access is decided by the policies of the bucket, not by ACLs');
  }
  const refused = Object.keys(call.request.headers).find((name) =>
    /^x-amz-(server-side-encryption|copy-source-server-side|object-lock|grant-|tagging$|website-)/.test(name),
  );
  if (refused !== undefined) throw notImplemented(`${refused} is not implemented`);
}

export function readFields(call: Call): UploadFields {
  const encodings = (headerOf(call, 'content-encoding') ?? '')
    .split(',')
    .map((encoding) => encoding.trim())
    .filter((encoding) => encoding !== '' && encoding.toLowerCase() !== 'aws-chunked');
  return {
    contentType: headerOf(call, 'content-type') ?? 'application/octet-stream',
    cacheControl: checkedValue('Cache-Control', headerOf(call, 'cache-control')) ?? 'no-cache',
    contentEncoding: checkedValue('Content-Encoding', encodings.join(', ')),
    robots: undefined,
    userMetadata: readUserMetadata(call),
  };
}

function readUserMetadata({ request }: Call): Record<string, string> {
  return Object.fromEntries(
    Object.entries(request.headers).flatMap(([name, value]) =>
      name.startsWith('x-amz-meta-') && typeof value === 'string'
        ? [[name.slice('x-amz-meta-'.length), value] as const]
        : [],
    ),
  );
}

export async function copyObject(call: Call): Promise<FastifyReply> {
  const { context, request, caller, bucket, name } = call;
  const once = readWriteCondition(call);
  checkUnsupported(call);
  const conditional = Object.keys(request.headers).find((one) => one.startsWith('x-amz-copy-source-if-'));
  if (conditional !== undefined) throw notImplemented(`${conditional} is not implemented`);
  const given = (headerOf(call, 'x-amz-copy-source') ?? '').replace(/^\//, '');
  if (given.includes('?')) throw notImplemented('There are no versions to copy');
  const source = readAddress(given);
  const directive = headerOf(call, 'x-amz-metadata-directive') ?? 'COPY';
  if (directive !== 'COPY' && directive !== 'REPLACE') throw invalidArgument('x-amz-metadata-directive');
  const from = { bucket: source.bucket, name: toName(source.name) };
  if (directive === 'COPY' && from.bucket === bucket && from.name === name) {
    throw invalidArgument('Copying an object onto itself must change something');
  }
  const fields = readFields(call);
  const stored = await copyAs(context, request, caller, {
    from,
    to: { bucket, name },
    upsert: !once,
    accept: () => true,
    replaced: directive === 'COPY' ? undefined : { ...fields, mimetype: fields.contentType },
  }).catch((error: unknown) => {
    throw once && isTaken(error) ? preconditionFailed() : error;
  });
  const eTag = stored.metadata?.['eTag'];
  return sendXml(
    call,
    element('CopyObjectResult', [
      element('LastModified', stored.updated_at),
      element('ETag', typeof eTag === 'string' ? eTag : ''),
    ]),
  );
}

export async function deleteObject(call: Call): Promise<FastifyReply> {
  const { refused } = await removeNames(call, [call.name], 'storage.object.delete');
  if (refused.has(call.name)) throw accessDenied();
  return await call.reply.code(204).send();
}

export async function deleteObjects(call: Call): Promise<FastifyReply> {
  const root = parseXml(await readPayload(call.request, call.signer, MAX_XML_BYTES));
  const objects = root.children.filter(({ name }) => name === 'Object');
  if (root.name !== 'Delete' || objects.length === 0 || objects.length > MAX_KEYS) throw malformedXml();
  const quiet = childText(root, 'Quiet') === 'true';
  const keys = objects.map((object) => {
    const version = childText(object, 'VersionId') ?? '';
    if (version !== '' && version !== 'null') throw notImplemented('There are no versions to delete');
    return childText(object, 'Key') ?? '';
  });
  if (keys.includes('')) throw malformedXml();
  const { refused } = await removeNames(call, keys.map(toName), 'storage.object.delete_many');
  return sendXml(
    call,
    element(
      'DeleteResult',
      keys.flatMap((key) => {
        if (refused.has(toName(key))) {
          return [
            element('Error', [
              element('Key', key),
              element('Code', 'AccessDenied'),
              element('Message', 'Access denied'),
            ]),
          ];
        }
        return quiet ? [] : [element('Deleted', [element('Key', key)])];
      }),
    ),
  );
}

/** What is gone or was never there for the caller counts as deleted; refused is what they still see. */
async function removeNames(
  { context, request, caller, ...call }: Call,
  names: readonly string[],
  operation: string,
): Promise<{ readonly refused: ReadonlySet<string> }> {
  const { id: bucket } = requireBucket(context.snapshot().config, call.bucket);
  const as = during(caller, operation, request);
  const removed = new Set(
    (await remove(context, as, { bucket, names, versions: new Map() })).map(({ name }) => name),
  );
  const left = names.filter((name) => !removed.has(name));
  if (left.length === 0) return { refused: new Set() };
  const seen = await readAs(
    context.callers,
    as,
    sql`select o.name from storage.objects o where o.bucket_id = ${bucket} and o.name = any (${left}::text[])`,
  );
  return { refused: new Set(seen) };
}
