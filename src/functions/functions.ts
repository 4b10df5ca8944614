// `/functions/v1/<name>`: who calls, which function, hand over, answer. The life of the workers behind it
// (start, reload, drain, stop) is driven by the server through what `createFunctions` returns.
import { availableParallelism } from 'node:os';
import { METHODS } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { CodeFunction, Config } from '../config/config.ts';
import { readBody } from '../http/body.ts';
import type { Feature, FeatureContext } from '../http/feature.ts';
import { resolveFunctionCaller, type Caller } from '../identity/caller.ts';
import { must } from '../lib/assert.ts';
import { SerialQueue } from '../lib/serial-queue.ts';
import type { Log } from '../log/log.ts';
import { databaseFailure, failureProblem } from '../postgres/pg-error.ts';
import { Abort, Problem } from '../problem/problem.ts';
import { openBundle, type OpenBundle } from './sources/bundle-store.ts';
import { checkFunctions } from './sources/check.ts';
import { fingerprint, sourcePaths, watchSources, type SourceWatch } from './sources/dev-sources.ts';
import { redactor, secretValues } from './runtime/env.ts';
import { installDependencies } from './sources/install.ts';
import { bodyTooSlow, draining, functionNotFound, signInRequired, toWire } from './problem.ts';
import { ServiceTokens } from './runtime/service-token.ts';
import { WorkerPool } from './runtime/worker-pool.ts';
import type { FunctionAnswer } from './runtime/function-answer.ts';
import type { Call } from './runtime/worker-process.ts';
import type { CallerClaims, Loaded, RequestHead } from './worker/protocol.ts';

const MAX_WORKERS = 4;
const DEFAULT_MEMORY_MB = 512;
const ONE_WRITE_BYTES = 16 * 1024;

export type FunctionsOptions = {
  readonly publishableKey: string;
  /** The service as this machine reaches it, known once it listens. */
  readonly loopbackUrl: () => string;
  /** `development` runs the sources, installs their dependencies and follows their changes. */
  readonly mode: 'development' | 'production';
  /** Worker processes; min(4, CPUs) by default. */
  readonly size?: number | undefined;
  /** JavaScript heap of one worker. */
  readonly memoryMb?: number | undefined;
  /** The Node binary that runs workers; the current one by default. */
  readonly runtime?: string | undefined;
};

export type Functions = {
  readonly feature: Feature;
  /** Throws what `reload` would refuse of this configuration, and changes nothing: asked before the database is. */
  check(config: Config): Promise<void>;
  /** Starts or replaces workers so that they run this configuration. When it throws, the former one is served on. */
  reload(config: Config): Promise<void>;
  /** Runs the sources as they are now, under the configuration that is served. */
  refresh(): Promise<void>;
  /**
   * Refuses new requests, and resolves when those that were accepted are answered. The server should still listen:
   * handlers under way may call it.
   */
  drain(): Promise<void>;
  stop(): Promise<void>;
  /** False when requests to functions can only fail, whatever their code. */
  well(): boolean;
  /** For the dashboard and tests. */
  status(): FunctionsStatus;
};

export type FunctionsStatus = {
  readonly workers: ReadonlyArray<{
    readonly pid: number | undefined;
    readonly state: string;
    readonly inFlight: number;
    readonly readyMs: number | undefined;
  }>;
  readonly functions: readonly string[];
  /** By name, what loading the code said; of the workers that loaded it last. */
  readonly failures: ReadonlyMap<string, string>;
};

/** A declared function with what each of its requests needs, encoded once. */
type Declared = {
  readonly fn: CodeFunction;
  readonly envJson: string;
};

type Running = { readonly functions: ReadonlyMap<string, Declared>; readonly key: string };

const NOTHING: Running = { functions: new Map(), key: '' };

export function createFunctions(options: FunctionsOptions): Functions {
  const runtime = new Runtime(options);
  return {
    feature: (context) => {
      runtime.attach(context);
      return (app) => addRoutes(app, context, runtime);
    },
    check: (config) => runtime.check(config),
    reload: (config) => runtime.reload(config),
    refresh: () => runtime.refresh(),
    drain: () => runtime.drain(),
    stop: () => runtime.stop(),
    well: () => runtime.pool.well,
    status: () => runtime.status(),
  };
}

class Runtime {
  readonly pool = new WorkerPool();
  readonly #options: FunctionsOptions;
  #context: FeatureContext | undefined;
  #tokens: ServiceTokens | undefined;
  #running: Running = NOTHING;
  #failures = new Map<string, string>();
  #held = 0;
  #draining = false;
  #onIdle: Array<() => void> = [];
  #bundle: OpenBundle | undefined;
  #watch: SourceWatch | undefined;
  /** Opened by a check, for the reload that follows it. */
  #ahead: OpenBundle | undefined;
  /** What a change of the sources is reloaded with. */
  #served: Config | undefined;
  #installedFor: string | undefined;
  /** One after another: a change of the code must not overtake a change of the file. */
  readonly #queue = new SerialQueue();
  #stopped = false;

  constructor(options: FunctionsOptions) {
    this.#options = options;
  }

  attach(context: FeatureContext): void {
    this.#context = context;
    this.#tokens = new ServiceTokens(context.signingKeys, context.now);
  }

  find(name: string): Declared | undefined {
    return this.#running.functions.get(name);
  }

  /** Counts a request until its answer is out, so that `drain` knows. */
  hold(): () => void {
    if (this.#draining) throw draining();
    this.#held++;
    let released = false;
    return () => {
      if (released) return;
      released = true;
      if (--this.#held > 0) return;
      for (const tell of this.#onIdle.splice(0)) tell();
    };
  }

  check(config: Config): Promise<void> {
    return this.#queue.run(() => this.#check(config));
  }

  reload(config: Config): Promise<void> {
    return this.#queue.run(() => this.#reload(config));
  }

  /** Which configuration is served is known in its turn only: the reload before it may have brought another. */
  refresh(): Promise<void> {
    return this.#queue.run(async () => {
      if (this.#served) await this.#reload(this.#served);
    });
  }

  async drain(): Promise<void> {
    this.#draining = true;
    if (this.#held === 0) return;
    await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#watch?.close();
    await this.#queue.idle();
    this.#running = NOTHING;
    await this.pool.stop();
    await this.#bundle?.close();
    await this.#ahead?.close();
  }

  status(): FunctionsStatus {
    return {
      workers: this.pool.workers.map((worker) => ({
        pid: worker.child.pid,
        state: worker.state,
        inFlight: worker.inFlight,
        readyMs: worker.readyAt === undefined ? undefined : worker.readyAt - worker.startedAt,
      })),
      functions: [...this.#running.functions.keys()],
      failures: this.#failures,
    };
  }

  get #runtime(): string {
    return this.#options.runtime ?? process.execPath;
  }

  async #check(config: Config): Promise<void> {
    if (this.#stopped || config.functions.length === 0) return;
    const { root, bundle } = await this.#open(config);
    if (bundle !== this.#ahead) {
      await this.#ahead?.close();
      this.#ahead = bundle === this.#bundle ? undefined : bundle;
    }
    checkFunctions(config.functions, root, this.#runtime);
  }

  async #reload(config: Config): Promise<void> {
    if (this.#stopped) return;
    const context = must(this.#context, 'the feature context');
    const { mode } = this.#options;
    if (config.functions.length === 0) {
      this.#served = config;
      this.#running = NOTHING;
      this.pool.clear();
      await this.#watch?.close();
      this.#watch = undefined;
      return;
    }
    const { root, bundle } = await this.#open(config);
    if (bundle === this.#ahead) this.#ahead = undefined;
    try {
      checkFunctions(config.functions, root, this.#runtime);
      if (mode === 'development' && this.#installedFor !== root) {
        await installDependencies({ directory: root, env: context.env, log: context.log });
        this.#installedFor = root;
      }
      await this.#run(config, root);
    } catch (error) {
      if (bundle !== this.#bundle) await bundle?.close();
      throw error;
    }
    if (bundle !== this.#bundle) {
      await this.#bundle?.close();
      this.#bundle = bundle;
    }
    this.#served = config;
    if (mode === 'development') await this.#follow(config, root);
  }

  async #run(config: Config, root: string): Promise<void> {
    const context = must(this.#context, 'the feature context');
    const { functions } = config;
    const declared = new Map(functions.map((fn) => [fn.name, { fn, envJson: JSON.stringify(fn.env) }]));
    const files = functions.map(({ name, file }) => ({ name, file }));
    const secrets = [...secretValues(config)].sort();
    const sources = await fingerprint(root, functions);
    const key = JSON.stringify([root, files, secrets, sources]);
    if (key === this.#running.key && this.pool.workers.length > 0) {
      // The same code: settings of requests (env, timeout, auth_required) change without new workers.
      this.#running = { functions: declared, key };
      return;
    }
    await this.pool.replace(
      {
        size: this.#options.size ?? sizeFrom(context.env),
        log: context.log,
        onLoaded: (loaded) => this.#reportLoaded(loaded),
        worker: {
          runtime: this.#runtime,
          memoryMb: this.#options.memoryMb ?? memoryFrom(context.env),
          settings: {
            root,
            functions: files,
            url: this.#options.loopbackUrl(),
            publishableKey: this.#options.publishableKey,
          },
          env: context.env,
          log: context.log,
          redact: redactor(secrets),
          showErrors: context.dev,
          serviceToken: () => must(this.#tokens, 'the service tokens').current(),
        },
      },
      () => (this.#running = { functions: declared, key }),
    );
  }

  /** Where the code is: the sources, or a verified bundle. */
  async #open(config: Config): Promise<{ root: string; bundle: OpenBundle | undefined }> {
    const { functionsBundle: pointer, source, providers } = config;
    if (this.#options.mode === 'production' && pointer !== undefined) {
      const bundle =
        [this.#bundle, this.#ahead].find((one) => one?.pointer === pointer) ??
        (await openBundle(pointer, { directory: source.directory, provider: providers.storage }));
      return { root: bundle.root, bundle };
    }
    if (source.directory === undefined) {
      throw new Problem('no_bundle', 500, 'A configuration from elsewhere needs its functions in a bundle', {
        hint: 'Make one with `svc bundle` and keep functions_bundle in the file.',
      });
    }
    return { root: source.directory, bundle: undefined };
  }

  async #follow(config: Config, root: string): Promise<void> {
    const { log } = must(this.#context, 'the feature context');
    const roots = await sourcePaths(root, config.functions);
    if (this.#watch?.roots.join('\n') === roots.join('\n')) return;
    await this.#watch?.close();
    this.#watch = watchSources(root, roots, () => {
      this.#refreshAndSay(log).catch((error: unknown) => {
        if (error instanceof Problem) {
          log.error({ details: error.details, hint: error.hint }, error.message);
        } else log.error({ err: error }, 'the functions could not be reloaded');
      });
    });
  }

  async #refreshAndSay(log: Log): Promise<void> {
    const before = this.#running.key;
    await this.refresh();
    if (this.#running.key !== before) log.info('the functions were reloaded');
  }

  #reportLoaded({ name, failure, ms }: Loaded): void {
    const { log } = must(this.#context, 'the feature context');
    if (failure) {
      this.#failures.set(name, failure.stack ?? failure.message);
      log.error(
        { function: name, error: failure.stack ?? failure.message },
        'a function could not be loaded',
      );
      return;
    }
    this.#failures.delete(name);
    log.debug({ function: name, ms: Math.round(ms) }, 'a function was loaded');
  }
}

/** min(4, CPUs), unless the operator asks for fewer. */
function sizeFrom(env: Readonly<Record<string, string | undefined>>): number {
  const most = Math.min(MAX_WORKERS, availableParallelism());
  const text = env['SVC_FUNCTIONS_WORKERS'];
  if (!text) return most;
  const wanted = Number(text);
  if (Number.isInteger(wanted) && wanted >= 1) return Math.min(wanted, most);
  throw new Problem('bad_workers', 500, `SVC_FUNCTIONS_WORKERS is ${JSON.stringify(text)}`, {
    hint: 'It must be a whole number, 1 or more.',
  });
}

function memoryFrom(env: Readonly<Record<string, string | undefined>>): number {
  const text = env['SVC_FUNCTIONS_MEMORY_MB'];
  if (!text) return DEFAULT_MEMORY_MB;
  const megabytes = Number(text);
  if (Number.isInteger(megabytes) && megabytes >= 32) return megabytes;
  throw new Problem('bad_memory', 500, `SVC_FUNCTIONS_MEMORY_MB is ${JSON.stringify(text)}`, {
    hint: 'It must be a whole number of megabytes, 32 or more.',
  });
}

function addRoutes(app: FastifyInstance, context: FeatureContext, runtime: Runtime): Promise<void> {
  app.setErrorHandler((error, request, reply) => answerError(error, request, reply, context));
  app.setNotFoundHandler((request, reply) => answerProblem(request, reply, functionNotFound('')));
  const handler = (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> =>
    invoke(context, runtime, request, reply);
  const known = new Set(app.supportedMethods);
  for (const method of METHODS) {
    // CONNECT asks for a tunnel and never arrives as a request.
    if (!known.has(method) && method !== 'CONNECT') app.addHttpMethod(method, { hasBody: true });
  }
  // What a body is, the handler says: a content type Fastify cannot read (or misses, for QUERY) is no reason to
  // refuse. The worker reads the headers as they arrived, from rawHeaders.
  app.addHook('onRequest', (request, _reply, done) => {
    request.raw.headers['content-type'] = 'application/octet-stream';
    done();
  });
  const config = { deadline: 'none' as const };
  app.all('/:name', { config }, handler);
  app.all('/:name/*', { config }, handler);
  return Promise.resolve();
}

async function invoke(
  context: FeatureContext,
  runtime: Runtime,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const name = functionName(request.params);
  const declared = runtime.find(name);
  if (!declared) throw functionNotFound(name);
  const { fn, envJson } = declared;
  const caller = await readCaller(context, request);
  if (fn.authRequired && !caller.user) throw signInRequired();
  runtime.pool.assertRoom();
  const release = runtime.hold();
  reply.raw.once('close', release);
  const body = await readWholeBody(context, request);
  const call: Call = {
    functionName: name,
    requestId: request.id,
    head: encodeHead(request, name, caller, fn, envJson),
    body,
    mayServe: fn.authRequired,
    timeoutMs: fn.timeoutMs,
  };
  const { scope } = request;
  if (scope.aborted) throw new Abort(scope.aborted);
  const running = runtime.pool.run(call);
  scope.cancel = () => running.cancel(scope.aborted ?? 'client-gone');
  return await respond(request, reply, await running.answer);
}

function functionName(params: unknown): string {
  return typeof params === 'object' && params !== null && 'name' in params ? String(params.name) : '';
}

/** No key is asked for; only a valid token makes a user. */
async function readCaller(context: FeatureContext, request: FastifyRequest): Promise<Caller> {
  const { authorization } = request.headers;
  return resolveFunctionCaller(await context.credentials.read({ authorization }));
}

async function readWholeBody(context: FeatureContext, request: FastifyRequest): Promise<Buffer> {
  const { headers, raw } = request;
  if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined) {
    return Buffer.alloc(0);
  }
  const { maxBodyBytes, timeouts } = context.snapshot().config.server;
  let timer: NodeJS.Timeout | undefined;
  const tooSlow = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(bodyTooSlow()), timeouts.requestMs);
  });
  try {
    return await Promise.race([readBody(raw, maxBodyBytes, headers['content-length']), tooSlow]);
  } finally {
    clearTimeout(timer);
  }
}

function encodeHead(
  request: FastifyRequest,
  functionName: string,
  { user, token }: Caller,
  fn: CodeFunction,
  envJson: string,
): string {
  const url = request.raw.url ?? '';
  const mark = url.indexOf('?');
  const claims: CallerClaims | null =
    user && token !== null
      ? {
          ...(user.sub === null ? {} : { sub: user.sub }),
          role: user.role,
          ...(user.email === null ? {} : { email: user.email }),
          jwt: token,
        }
      : null;
  const head: Omit<RequestHead, 'env'> = {
    functionName,
    requestId: request.id,
    method: request.method,
    path: mark < 0 ? url : url.slice(0, mark),
    rawQuery: mark < 0 ? '' : url.slice(mark + 1),
    rawHeaders: request.raw.rawHeaders,
    claims,
    mayServe: fn.authRequired,
  };
  return `${JSON.stringify(head).slice(0, -1)},"env":${envJson}}`;
}

async function respond(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, headers, body }: FunctionAnswer,
): Promise<FastifyReply> {
  const fields: Record<string, string | string[]> = {};
  for (const [name, value] of headers) fields[name] = typeof value === 'string' ? value : [...value];
  const { raw } = reply;
  // The function's own `vary` must not hide that the answer depends on the origin.
  const vary = raw.getHeader('vary');
  if (typeof vary === 'string' && typeof fields['vary'] === 'string') fields['vary'] += `, ${vary}`;
  if (body && !(body instanceof Readable)) fields['content-length'] = String(body.length);
  // Before the reply is taken over: a head that Node refuses can still be answered with an error.
  raw.writeHead(status, fields);
  reply.hijack();
  if (!(body instanceof Readable)) {
    if (!body) raw.end();
    // As text Node puts head and body into one write; latin1 keeps every byte what it is.
    else if (body.length <= ONE_WRITE_BYTES) raw.end(body.toString('latin1'), 'latin1');
    else raw.end(body);
    return reply;
  }
  if (request.method === 'HEAD') {
    body.destroy();
    raw.end();
    return reply;
  }
  // At once: a stream of events may say nothing for a while.
  raw.flushHeaders();
  const announced = fields['content-length'];
  try {
    if (typeof announced === 'string') await pipeline(body, exactly(Number(announced)), raw);
    else await pipeline(body, raw);
  } catch {
    // The client left, or the function failed half-way (and was logged): the broken connection says so.
    raw.destroy();
  }
  return reply;
}

/** A body of another length than announced would be read as part of the next answer. */
function exactly(bytes: number): (source: AsyncIterable<Buffer>) => AsyncGenerator<Buffer> {
  return async function* count(source) {
    let left = bytes;
    for await (const chunk of source) {
      left -= chunk.length;
      if (left < 0) throw new Error('the function sent more than its content-length');
      yield chunk;
    }
    if (left > 0) throw new Error('the function sent less than its content-length');
  };
}

function answerError(
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  { log }: FeatureContext,
): FastifyReply {
  if (error instanceof Problem) {
    return answerProblem(request, reply, error);
  }
  if (error instanceof Abort) {
    return answerProblem(request, reply, new Problem('aborted', 503, 'The request was given up'));
  }
  // Fastify's own refusals (a content type that is none) are the caller's doing.
  if (error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number') {
    if (error.statusCode < 500) {
      return answerProblem(request, reply, new Problem('bad_request', error.statusCode, error.message));
    }
  }
  const failure = databaseFailure(error);
  if (failure) {
    log.error({ err: error, requestId: request.id }, failure.message);
    return answerProblem(request, reply, failureProblem(failure, error));
  }
  log.error({ err: error, requestId: request.id }, 'fault');
  const hint = `The log has more under request id ${request.id}.`;
  return answerProblem(request, reply, new Problem('internal_error', 500, 'Internal server error', { hint }));
}

function answerProblem(request: FastifyRequest, reply: FastifyReply, problem: Problem): FastifyReply {
  request.scope.errorCode = problem.code;
  return reply.code(problem.status).headers(problem.headers).send(toWire(problem));
}
