// The storage API: its routes, its error dialect, and the life of its backend and cleanup. Every address is read
// from the undecoded path, so that the router, the checks and the name agree on what was asked for.
import { resolve } from 'node:path';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Config } from '../config/config.ts';
import { must } from '../lib/assert.ts';
import type { Log } from '../log/log.ts';
import { tryLock } from '../postgres/advisory-lock.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import type { Feature, FeatureContext } from '../http/feature.ts';
import { changeBucket, createBucket, getBucket, listBuckets } from './actions/buckets.ts';
import { downloadAs, downloadPublic, downloadSigned } from './actions/download.ts';
import { infoAs, infoPublic } from './actions/info.ts';
import { listV1, listV2 } from './actions/list.ts';
import { copy, move } from './actions/relocate.ts';
import { renderAs, renderPublic, renderSigned, signedTransformation } from './actions/render-image.ts';
import { removeMany, removeOne } from './actions/remove.ts';
import { createUploadLink, signMany, signOne, uploadSigned } from './actions/sign.ts';
import { addResumableRoutes } from './actions/resumable.ts';
import { upload } from './actions/upload.ts';
import type { Backend } from './backend/backend.ts';
import { LocalBackend } from './backend/local.ts';
import { S3Backend } from './backend/s3.ts';
import { answerProblem } from './http/answer.ts';
import { serviceCaller } from './http/caller.ts';
import { Cleanup, type CleanupOptions } from './cleanup/cleanup.ts';
import { readAddress, type Address } from './objects/object-path.ts';
import { featureNotEnabled, invalidKey, routeNotFound, toStorageProblem } from './problem.ts';
import { DEFAULT_LIMITS, rawRest, type StorageContext, type StorageLimits } from './storage-context.ts';
import { ImageRenderer } from './objects/image.ts';
import { SAFE_HEADERS } from './http/serve.ts';
import { sweepOrphans, type OrphanOptions, type OrphanReport } from './cleanup/orphans.ts';
import { settleBackend } from './backend/location.ts';
import { UploadSlots } from './uploads/upload-slots.ts';
import { UrlTokens } from './objects/url-token.ts';

const ORPHAN_INTERVAL_MS = 60 * 60_000;

export type StorageOptions = {
  /** From `deriveUrlKey`. */
  readonly urlKey: Buffer;
  readonly limits?: Partial<StorageLimits> | undefined;
  readonly cleanup?: Pick<CleanupOptions, 'graceMs' | 'pollMs'> | undefined;
};

type Action = (
  context: StorageContext,
  request: FastifyRequest,
  reply: FastifyReply,
) => Promise<FastifyReply>;

export type StorageFeature = {
  readonly feature: Feature;
  /** Does at once what is due, without waiting for the grace; for operators and tests. */
  sweep(): Promise<number>;
  /** Looks for bytes that no row accounts for. */
  sweepOrphans(options?: Pick<OrphanOptions, 'minAgeMs' | 'dryRun' | 'force'>): Promise<OrphanReport>;
};

export function createStorage(options: StorageOptions): StorageFeature {
  let mounted: Mounted | undefined;
  return {
    feature: (context) => async (app) => {
      mounted = await mount(app, context, options);
    },
    sweep: () => must(mounted, 'the mounted storage').cleanup.sweep(),
    sweepOrphans(wanted = {}) {
      const { cleanup: _cleanup, ...parts } = must(mounted, 'the mounted storage');
      return sweepOrphans({ ...parts, backend: parts.backend(), ...wanted });
    },
  };
}

type Mounted = {
  readonly cleanup: Cleanup;
  readonly owner: OwnerDatabase;
  readonly backend: () => Backend;
  readonly log: Log;
};

async function mount(
  app: FastifyInstance,
  feature: FeatureContext,
  options: StorageOptions,
): Promise<Mounted> {
  let backend: Backend | undefined;
  // Opened at the first use: the file is not read yet when routes are made.
  const openBackend = (): Backend => {
    backend ??= createBackend(feature.snapshot().config);
    return backend;
  };
  const cleanup = new Cleanup({
    owner: feature.owner,
    backend: openBackend,
    log: feature.log,
    ...options.cleanup,
  });
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const context: StorageContext = {
    ...feature,
    get backend() {
      return openBackend();
    },
    tokens: new UrlTokens(options.urlKey, feature.now),
    cleanup,
    slots: new UploadSlots(limits),
    limits,
  };
  let settled: Promise<void> | undefined;
  const settle = (): Promise<void> => {
    settled ??= settleBackend(feature.owner, openBackend()).catch((error: unknown) => {
      // Tried again by the next request: a full disk or an unreachable store may recover.
      settled = undefined;
      throw error;
    });
    return settled;
  };
  if (feature.whenServing) feature.whenServing(() => cleanup.start());
  else cleanup.start();
  app.addHook('onRequest', async (_request, reply) => {
    reply.headers(SAFE_HEADERS);
    await settle();
  });
  app.addHook('onClose', async () => {
    await cleanup.stop();
    backend?.close();
  });
  app.setErrorHandler((error, request, reply) => {
    const problem = toStorageProblem(error);
    if (problem.status >= 500 && problem.cause !== undefined) {
      feature.log.error({ err: problem.cause, requestId: request.id }, 'storage fault');
    }
    return answerProblem(request, reply, problem);
  });
  app.setNotFoundHandler((request, reply) =>
    answerProblem(request, reply, routeNotFound(request.method, request.url.split('?')[0] ?? '')),
  );
  addObjectRoutes(app, context);
  addBucketRoutes(app, context);
  addResumableRoutes(app, context);
  const orphans = setInterval(() => {
    sweepInTurn(feature.owner, () =>
      sweepOrphans({ owner: feature.owner, backend: openBackend(), log: feature.log }),
    ).catch((error: unknown) =>
      feature.log.warn({ err: error, job: 'orphans' }, 'looking for orphaned blobs failed'),
    );
  }, ORPHAN_INTERVAL_MS);
  orphans.unref();
  app.addHook('onClose', () => clearInterval(orphans));
  return await Promise.resolve({ cleanup, owner: feature.owner, backend: openBackend, log: feature.log });
}

/** One instance at a time; the others find the lock taken and leave it. */
async function sweepInTurn(owner: OwnerDatabase, sweep: () => Promise<unknown>): Promise<void> {
  await owner.session(async (session) => {
    if (await tryLock(session, 'storageOrphans')) await sweep();
  });
}

function addObjectRoutes(app: FastifyInstance, context: StorageContext): void {
  const { prefix } = app;
  const address = (request: FastifyRequest, skip: number): Address => {
    const found = readAddress(rawRest(request, prefix, skip));
    if (found.name === '') throw invalidKey('');
    return found;
  };
  const act =
    (action: Action) =>
    (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
      action(context, request, reply);
  /** An action on one object, whose address begins after `skip` segments. */
  const at = (
    skip: number,
    action: (
      context: StorageContext,
      request: FastifyRequest,
      reply: FastifyReply,
      address: Address,
    ) => Promise<FastifyReply>,
  ) => act((_context, request, reply) => action(context, request, reply, address(request, skip)));
  const inBucket = (
    skip: number,
    action: (
      context: StorageContext,
      request: FastifyRequest,
      reply: FastifyReply,
      bucket: string,
    ) => Promise<FastifyReply>,
  ) =>
    act((_context, request, reply) =>
      action(context, request, reply, readAddress(rawRest(request, prefix, skip)).bucket),
    );
  const isWholeBucket = (request: FastifyRequest, skip: number): boolean =>
    readAddress(rawRest(request, prefix, skip)).name === '';

  const reading = { method: ['GET' as const, 'HEAD' as const], config: { deadline: 'none' as const } };
  app.route({ ...reading, url: '/object/public/*', handler: at(2, downloadPublic) });
  app.route({ ...reading, url: '/object/sign/*', handler: at(2, downloadSigned) });
  app.route({
    ...reading,
    url: '/object/authenticated/*',
    handler: at(2, (...args) => downloadAs(...args, 'closed')),
  });
  app.route({ ...reading, url: '/object/*', handler: at(1, (...args) => downloadAs(...args, 'lenient')) });

  app.get('/object/info/public/*', at(3, infoPublic));
  app.get(
    '/object/info/authenticated/*',
    at(3, (...args) => infoAs(...args, 'closed')),
  );
  app.get(
    '/object/info/*',
    at(2, (...args) => infoAs(...args, 'lenient')),
  );

  const writing = { config: { deadline: 'upload' as const } };
  app.route({ ...writing, method: ['POST', 'PUT'], url: '/object/*', handler: at(1, upload) });
  app.put('/object/upload/sign/*', writing, at(3, uploadSigned));
  app.post('/object/upload/sign/*', at(3, createUploadLink));

  app.post('/object/list/*', inBucket(2, listV1));
  app.post('/object/list-v2/*', inBucket(2, listV2));
  app.post('/object/move', act(move));
  app.post('/object/copy', writing, act(copy));
  app.post('/object/sign/*', async (request, reply) =>
    isWholeBucket(request, 2)
      ? await inBucket(2, signMany)(request, reply)
      : await at(2, (...args) => signOne(...args, signedTransformation))(request, reply),
  );
  app.delete('/object/*', async (request, reply) =>
    isWholeBucket(request, 1)
      ? await inBucket(1, removeMany)(request, reply)
      : await at(1, removeOne)(request, reply),
  );

  const renderer = new ImageRenderer(context.limits.images);
  app.get(
    '/render/image/public/*',
    at(3, (_context, ...args) => renderPublic(context, renderer, ...args)),
  );
  app.get(
    '/render/image/authenticated/*',
    at(3, (_context, ...args) => renderAs(context, renderer, ...args)),
  );
  app.get(
    '/render/image/sign/*',
    at(3, (_context, ...args) => renderSigned(context, renderer, ...args)),
  );

  // Nothing is cached in front of the rows, so there is nothing to purge; asking is still a privilege.
  app.delete('/cdn/*', async (request, reply) => {
    await serviceCaller(context.credentials, request);
    return await reply.send({ message: 'success' });
  });
  for (const absent of ['vector', 'iceberg']) {
    app.all(`/${absent}/*`, () => {
      throw featureNotEnabled(absent);
    });
  }
  app.get('/status', (_request, reply) => reply.code(200).send(''));
  app.get('/version', (_request, reply) => reply.type('text/plain').send('svc'));
}

function addBucketRoutes(app: FastifyInstance, context: StorageContext): void {
  const bucketOf = (request: FastifyRequest): string => readAddress(rawRest(request, app.prefix, 1)).bucket;
  app.get('/bucket', (request, reply) => listBuckets(context, request, reply));
  app.post('/bucket', (request) => createBucket(context, request));
  app.get('/bucket/*', async (request, reply) => {
    const { bucket, name } = readAddress(rawRest(request, app.prefix, 1));
    if (name === 'lifecycle') return await changeBucket(context, request, bucket);
    return await getBucket(context, request, reply, bucket);
  });
  app.route({
    method: ['PUT', 'POST', 'DELETE'],
    url: '/bucket/*',
    handler: (request) => changeBucket(context, request, bucketOf(request)),
  });
}

/** Where the file says the bytes are; without a word about it, beside the file. */
export function createBackend(config: Config): Backend {
  const provider = config.providers.storage;
  if (provider.type === 's3') return new S3Backend(provider);
  return new LocalBackend(resolve(config.source.directory ?? '.', provider.path ?? '.svc/storage'));
}
