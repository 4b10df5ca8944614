// `/storage/v1` as a feature: the table of its routes, who may use each, and its error format. What an action does
// is in `actions/`.
import { resolve } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config/config.ts';
import type { Feature, FeatureContext } from '../http/feature.ts';
import { must } from '../lib/assert.ts';
import { tryLock } from '../postgres/advisory-lock.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import { getBucket, listBuckets, refuseBucketChange, refuseBucketCreation } from './actions/buckets.ts';
import { downloadAs, downloadPublic, downloadSigned } from './actions/download.ts';
import { infoAs, infoPublic } from './actions/info.ts';
import { listV1, listV2 } from './actions/list.ts';
import { copy, move } from './actions/relocate.ts';
import { removeMany, removeOne } from './actions/remove.ts';
import { renderAs, renderPublic, renderSigned } from './actions/render-image.ts';
import { refuseS3 } from './actions/refuse-s3.ts';
import { tusAppend, tusCreate, tusOffset, tusOptions, tusTerminate } from './actions/resumable.ts';
import { createUploadLink, signMany, signOne } from './actions/sign.ts';
import { upload, uploadWithLink } from './actions/upload.ts';
import type { Backend } from './backend/backend.ts';
import { LocalBackend } from './backend/local.ts';
import { S3Backend } from './backend/s3.ts';
import { StoreGuard } from './backend/store-guard.ts';
import { blobGrace, Cleanup, type CleanupOptions } from './cleanup/cleanup.ts';
import { sweepOrphans, type OrphanOptions, type OrphanReport } from './cleanup/orphans.ts';
import { answerProblem } from './http/answer.ts';
import { optionalCaller, requireCaller } from './http/caller.ts';
import { rawPath } from './http/raw-path.ts';
import { SAFE_HEADERS } from './http/serve.ts';
import { ImageRenderer } from './objects/image.ts';
import { readAddress, type Address } from './objects/object-path.ts';
import { UrlTokens } from './objects/url-token.ts';
import { featureNotEnabled, invalidKey, invalidRole, routeNotFound, toStorageProblem } from './problem.ts';
import type {
  Call,
  CallerCall,
  OptionalCallerCall,
  StorageContext,
  StorageLimits,
} from './storage-context.ts';
import { UploadLeases } from './uploads/lease.ts';
import { UploadSlots } from './uploads/upload-slots.ts';

type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';
type Answer = FastifyReply | Promise<FastifyReply>;
type Access =
  /** Public objects, and signed links, whose token the action verifies. */
  | readonly ['none', (call: Call) => Answer]
  | readonly ['key', (call: CallerCall) => Answer]
  /** The caller is undefined without usable credentials. */
  | readonly ['optional', (call: OptionalCallerCall) => Answer];
/** Routes without a deadline use `timeouts.request`. Downloads have none. */
type Deadline = 'none' | 'upload';

/** A URL may end in `:object` (a bucket and a path in it), `:bucket` (the path is optional) or `:rest`. */
type Route = readonly [methods: Method | readonly Method[] | 'ALL', url: string, Access, Deadline?];

/** HEAD is answered by the action; for other GET routes Fastify answers it. */
const READ: readonly Method[] = ['GET', 'HEAD'];
const CHANGE: readonly Method[] = ['POST', 'PUT', 'DELETE'];

/** Every described route must be listed here. */
export const ROUTES: readonly Route[] = [
  [READ, '/object/public/:object', ['none', downloadPublic], 'none'],
  [READ, '/object/sign/:object', ['none', downloadSigned], 'none'],
  [READ, '/object/authenticated/:object', ['key', downloadAs], 'none'],
  [READ, '/object/:object', ['optional', downloadAs], 'none'],
  ['GET', '/object/info/public/:object', ['none', infoPublic]],
  ['GET', '/object/info/authenticated/:object', ['key', infoAs]],
  ['GET', '/object/info/:object', ['optional', infoAs]],

  [['POST', 'PUT'], '/object/:object', ['key', upload], 'upload'],
  ['POST', '/object/move', ['key', move]],
  ['POST', '/object/copy', ['key', copy], 'upload'],
  ['DELETE', '/object/:bucket', ['key', either(removeMany, removeOne)]],
  ['POST', '/object/list/:bucket', ['key', listV1]],
  ['POST', '/object/list-v2/:bucket', ['key', listV2]],

  ['POST', '/object/sign/:bucket', ['key', either(signMany, signOne)]],
  ['POST', '/object/upload/sign/:object', ['key', createUploadLink]],
  ['PUT', '/object/upload/sign/:object', ['none', uploadWithLink], 'upload'],

  ['POST', '/upload/resumable', ['key', tusCreate], 'upload'],
  ['HEAD', '/upload/resumable/:rest', ['key', tusOffset]],
  ['PATCH', '/upload/resumable/:rest', ['key', tusAppend], 'upload'],
  ['DELETE', '/upload/resumable/:rest', ['key', tusTerminate]],
  ['OPTIONS', '/upload/resumable', ['none', tusOptions]],
  ['OPTIONS', '/upload/resumable/:rest', ['none', tusOptions]],
  // The same with the token of an upload link.
  ['POST', '/upload/resumable/sign', ['none', tusCreate], 'upload'],
  ['HEAD', '/upload/resumable/sign/:rest', ['none', tusOffset]],
  ['PATCH', '/upload/resumable/sign/:rest', ['none', tusAppend], 'upload'],
  ['DELETE', '/upload/resumable/sign/:rest', ['none', tusTerminate]],
  ['OPTIONS', '/upload/resumable/sign', ['none', tusOptions]],
  ['OPTIONS', '/upload/resumable/sign/:rest', ['none', tusOptions]],

  ['GET', '/render/image/public/:object', ['none', renderPublic]],
  ['GET', '/render/image/authenticated/:object', ['key', renderAs]],
  ['GET', '/render/image/sign/:object', ['none', renderSigned]],

  ['GET', '/bucket', ['key', listBuckets]],
  ['POST', '/bucket', ['key', refuseBucketCreation]],
  ['GET', '/bucket/:bucket', ['key', getBucket]],
  [CHANGE, '/bucket/:bucket', ['key', refuseBucketChange]],

  ['DELETE', '/cdn/:rest', ['key', purgeCache]],
  ['ALL', '/s3', ['none', refuseS3]],
  ['ALL', '/s3/:rest', ['none', refuseS3]],
  ['ALL', '/vector/:rest', ['none', () => refuse('vector')]],
  ['ALL', '/iceberg/:rest', ['none', () => refuse('iceberg')]],
  ['GET', '/status', ['none', ({ reply }: Call) => reply.code(200).send('')]],
  ['GET', '/version', ['none', ({ reply }: Call) => reply.type('text/plain').send('svc')]],
];

/** There is no cache, but the request needs the permission that it would need if there was one. */
function purgeCache({ reply, caller }: CallerCall): FastifyReply {
  if (caller.role !== 'service_role') throw invalidRole();
  return reply.send({ message: 'success' });
}

function refuse(feature: string): never {
  throw featureNotEnabled(feature);
}

/** Selects the action by address: a bucket, or an object in it. */
function either(onBucket: (call: CallerCall) => Answer, onObject: typeof onBucket): typeof onBucket {
  return (call) => (call.address.name === '' ? onBucket(call) : onObject(call));
}

function addRoute(app: FastifyInstance, context: StorageContext, route: Route): void {
  const [methods, url, [access, action], deadline] = route;
  const [, parameter] = /:(\w+)$/.exec(url) ?? [];
  /** Segments before the parameter. */
  const skip = url.split('/').length - 2;
  const createCall = (request: FastifyRequest, reply: FastifyReply): Call => {
    const rest = parameter === undefined ? '' : rawPath(request, app.prefix, skip);
    return { context, request, reply, rest, address: parseAddress(parameter, rest) };
  };
  app.route({
    method: methods === 'ALL' ? app.supportedMethods : [methods].flat(),
    url: url.replace(/:\w+$/, '*'),
    ...(deadline === undefined ? {} : { config: { deadline } }),
    handler: async (request, reply) => {
      const call = createCall(request, reply);
      if (access === 'none') return await action(call);
      if (access === 'key')
        return await action({ ...call, caller: await requireCaller(context.credentials, request) });
      return await action({ ...call, caller: await optionalCaller(context.credentials, request) });
    },
  });
}

/** Parses the undecoded path, so that the router and the permission checks agree on the address. */
function parseAddress(parameter: string | undefined, rest: string): Address {
  if (parameter !== 'object' && parameter !== 'bucket') return { bucket: '', name: '' };
  const address = readAddress(rest);
  if (parameter === 'object' && address.name === '') throw invalidKey('');
  return address;
}

function addErrors(app: FastifyInstance, { log }: FeatureContext): void {
  app.setErrorHandler((error, request, reply) => {
    const problem = toStorageProblem(error);
    if (problem.status >= 500 && problem.cause !== undefined) {
      log.error(
        { err: problem.cause, requestId: request.id, route: request.routeOptions.url },
        problem.status === 500 ? 'storage fault' : problem.message,
      );
    }
    return answerProblem(request, reply, problem);
  });
  app.setNotFoundHandler((request, reply) =>
    answerProblem(request, reply, routeNotFound(request.method, request.url.split('?')[0] ?? '')),
  );
}

const DEFAULT_LIMITS: StorageLimits = {
  concurrentUploads: 200,
  uploadsPerCaller: 50,
  uploadsPerAddress: 25,
  anonymousUploads: 100,
  images: {
    maxInputPixels: 50_000_000,
    maxInputBytes: 25 * 1024 * 1024,
    timeoutSeconds: 10,
    concurrent: 2,
    waiting: 50,
  },
};
const ORPHAN_INTERVAL_MS = 60 * 60_000;

export type StorageOptions = {
  /** The result of `deriveUrlKey`. */
  readonly urlKey: Buffer;
  readonly limits?: Partial<StorageLimits> | undefined;
  readonly cleanup?: Pick<CleanupOptions, 'graceMs' | 'pollMs'> | undefined;
  /**
   * Connections for a lock that is held across several statements, which a pooler does not support. Default: the
   * owner's connections.
   */
  readonly sessions?: OwnerDatabase | undefined;
};

export type StorageFeature = {
  readonly feature: Feature;
  /**
   * Before a file is served: throws a Problem unless the bytes of its buckets are where this database recorded them.
   * The place is the one of the first file; another one waits for a restart.
   */
  verify(config: Config): Promise<void>;
  /** Deletes what is pending without the grace; returns how many deletions were pending. */
  sweep(): Promise<number>;
  /** Looks for bytes that no row refers to. */
  sweepOrphans(options?: Pick<OrphanOptions, 'minAgeMs' | 'dryRun' | 'force'>): Promise<OrphanReport>;
};

export function createStorage(options: StorageOptions): StorageFeature {
  let mounted: StorageContext | undefined;
  let guard: StoreGuard | undefined;
  // Opened at the first use, because the routes are created before the configuration is read.
  let backend: Backend | undefined;
  return {
    feature: (feature) => async (app) => {
      const open = (): Backend => (backend ??= createBackend(feature.snapshot().config));
      const { owner, log, dev, degraded } = feature;
      guard = new StoreGuard({ owner, log, dev, degraded, backend: open });
      mounted = makeContext(feature, options, open, guard);
      for (const route of ROUTES) addRoute(app, mounted, route);
      addErrors(app, feature);
      addLifecycle(app, mounted, options.sessions ?? mounted.owner, guard, () => backend?.close());
      await Promise.resolve();
    },
    async verify(config) {
      if (config.storage.length === 0) return;
      backend ??= createBackend(config);
      await must(guard, 'the mounted storage').verify();
    },
    sweep: () => must(mounted, 'the mounted storage').cleanup.sweep(),
    sweepOrphans: (wanted = {}) => {
      const { owner, backend, log } = must(mounted, 'the mounted storage');
      return sweepOrphans({ owner, backend, log, ...wanted });
    },
  };
}

function makeContext(
  feature: FeatureContext,
  options: StorageOptions,
  openBackend: () => Backend,
  guard: StoreGuard,
): StorageContext {
  // On a developer's machine everybody has the same address.
  const perAddress = feature.dev ? { uploadsPerAddress: DEFAULT_LIMITS.concurrentUploads } : {};
  const limits = { ...DEFAULT_LIMITS, ...perAddress, ...options.limits };
  const { owner, log } = feature;
  return {
    ...feature,
    get backend() {
      return openBackend();
    },
    tokens: new UrlTokens(options.urlKey, feature.now),
    cleanup: new Cleanup({
      owner,
      backend: openBackend,
      log,
      usable: () => guard.usable(),
      graceMs: blobGrace(feature.env),
      ...options.cleanup,
    }),
    slots: new UploadSlots(limits),
    leases: new UploadLeases(owner),
    images: new ImageRenderer(limits.images),
  };
}

function addLifecycle(
  app: FastifyInstance,
  context: StorageContext,
  sessions: OwnerDatabase,
  guard: StoreGuard,
  closeBackend: () => void,
): void {
  const { owner, cleanup, log } = context;
  app.addHook('onRequest', async (_request, reply) => {
    reply.headers(SAFE_HEADERS);
    await guard.open();
  });
  if (context.whenServing) context.whenServing(() => cleanup.start());
  else cleanup.start();
  const checkAndSweep = async (): Promise<void> => {
    if (await guard.usable(true))
      await sweepAlone(sessions, () => sweepOrphans({ owner, backend: context.backend, log }));
  };
  const orphans = setInterval(() => {
    checkAndSweep().catch((err: unknown) =>
      log.warn({ err, job: 'orphans' }, 'looking for orphaned blobs failed'),
    );
  }, ORPHAN_INTERVAL_MS);
  orphans.unref();
  app.addHook('onClose', async () => {
    clearInterval(orphans);
    await cleanup.stop();
    closeBackend();
  });
}

/** Only one instance at a time runs the orphan scan; the others skip it. */
async function sweepAlone(sessions: OwnerDatabase, sweep: () => Promise<unknown>): Promise<void> {
  await sessions.session(async (session) => {
    if (await tryLock(session, 'storageOrphans')) await sweep();
  });
}

export function createBackend(config: Config): Backend {
  const provider = config.providers.storage;
  if (provider.type === 's3') return new S3Backend(provider);
  const { directory, dataDirectory = directory ?? '.' } = config.source;
  return new LocalBackend(resolve(dataDirectory, provider.path));
}
