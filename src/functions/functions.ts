// The functions feature: loads a generation of the code, serves it, reloads, drains and stops.
import type { Config } from '../config/config.ts';
import type { Feature, FeatureContext, FunctionCall, FunctionOutcome } from '../http/feature.ts';
import { must } from '../lib/assert.ts';
import { redactor } from '../lib/secret-mask.ts';
import { SerialQueue } from '../lib/limits/serial-queue.ts';
import type { Metrics } from '../log/metrics.ts';
import { Problem } from '../problem/problem.ts';
import { DrainGate } from './drain-gate.ts';
import { memoryFrom, NO_FUNCTIONS, readGeneration, workersFrom, type Generation } from './generation.ts';
import { addRoutes } from './http/routes.ts';
import { functionNotFound, notLoaded } from './problem.ts';
import { callForEvent, type EventAnswer, type EventCall } from './runtime/call-for-event.ts';
import { callInternally } from './runtime/internal-call.ts';
import { serviceTokens } from './runtime/service-token.ts';
import { WorkerPool } from './runtime/worker-pool.ts';
import type { WorkerProcess } from './runtime/worker-process.ts';
import { checkFunctions } from './sources/check.ts';
import { CodeFolders, type CodeFolder } from './sources/code-folder.ts';
import { sourcePaths, watchSources, type SourceWatch } from './sources/dev-sources.ts';
import { dependencyState, installDependencies } from './sources/install.ts';
import type { Failure, Loaded } from './worker/protocol.ts';

export type FunctionsOptions = {
  readonly publishableKey: string;
  /** The service's URL on this machine, known once it listens. */
  readonly loopbackUrl: () => string;
  /** `development` runs the sources, installs their dependencies and watches them. */
  readonly mode: 'development' | 'production';
  /** Worker processes; min(4, CPUs) by default. */
  readonly size?: number | undefined;
  /** Processes of this service on this machine, among which workers are divided; default 1. */
  readonly processes?: number | undefined;
  /** JavaScript heap limit of one worker. */
  readonly memoryMb?: number | undefined;
  /** The Node binary that runs workers; the current one by default. */
  readonly runtime?: string | undefined;
};

type WorkerStatus = Pick<WorkerProcess, 'state' | 'responsive' | 'inFlight'> & {
  readonly pid: number | undefined;
  readonly readyMs: number | undefined;
};

export type FunctionsStatus = {
  readonly workers: readonly WorkerStatus[];
  readonly functions: readonly string[];
  /** Last error while loading the code, keyed by function. */
  readonly failures: ReadonlyMap<string, string>;
};

type Attached = { readonly context: FeatureContext; readonly serviceToken: () => Promise<string> };

export class Functions {
  readonly #options: FunctionsOptions;
  readonly #runtime: string;
  readonly #pool = new WorkerPool();
  readonly #admission = new DrainGate();
  readonly #folders: CodeFolders;
  /** Serialises reloads: a source change must not finish after a newer change of svc.yaml. */
  readonly #reloads = new SerialQueue();
  readonly #failures = new Map<string, string>();
  /** Number of workers that replaced a dead or degraded worker. */
  #replacedWorkers = 0;
  #attached: Attached | undefined;
  #served: Generation = NO_FUNCTIONS;
  /** Reloaded when the sources change. */
  #config: Config | undefined;
  #folder: CodeFolder | undefined;
  #installedFor: string | undefined;
  /** State of package.json and the lockfile that was installed or reported last. */
  #dependencies: string | undefined;
  #watch: SourceWatch | undefined;
  #stopped = false;

  constructor(options: FunctionsOptions) {
    this.#options = options;
    this.#runtime = options.runtime ?? process.execPath;
    this.#folders = new CodeFolders(options.mode);
  }

  readonly feature: Feature = (context) => {
    this.#attached = { context, serviceToken: serviceTokens(context.signingKeys, context.now) };
    return (app) => {
      const find = (name: string) => this.#served.functions.get(name);
      addRoutes(app, context, { find, admission: this.#admission, pool: this.#pool });
      return Promise.resolve();
    };
  };

  /** Throws if `reload` would refuse this configuration. Changes nothing; runs before the migration. */
  check(config: Config): Promise<void> {
    return this.#reloads.run(async () => {
      if (this.#stopped || config.functions.length === 0) return;
      const folder = await this.#folders.open(config);
      await this.#folders.keepOnly(this.#folder, folder);
      checkFunctions(config.functions, folder.root, this.#runtime);
    });
  }

  /** Starts or replaces workers to run this configuration. If it throws, the previous one stays in service. */
  reload(config: Config): Promise<void> {
    return this.#reloads.run(() => this.#reload(config));
  }

  /**
   * Reloads the sources. Uses the configuration that is current when this reload's turn comes. Throws if the function
   * `required` does not load; the previous version stays in service.
   */
  refresh(required?: string): Promise<void> {
    return this.#reloads.run(async () => {
      if (this.#config) await this.#reload(this.#config, required);
    });
  }

  /**
   * Rejects new requests and waits for those in flight. Keep listening until then, because their handlers may call
   * the API.
   */
  drain(): Promise<void> {
    return this.#admission.drain();
  }

  /** Calls a function for svc itself. */
  async call(call: FunctionCall): Promise<FunctionOutcome> {
    const declared = this.#served.functions.get(call.name);
    if (!declared) return { kind: 'failed', why: `the function ${call.name} is not served` };
    // Not counted by the admission: the request that causes the call is in flight itself, and draining waits for it.
    return await callInternally(this.#pool, declared, call);
  }

  /** Calls a function for a delivery. Throws a Problem, or an EventFailure once the call has begun. */
  async callForEvent(name: string, call: EventCall): Promise<EventAnswer> {
    const declared = this.#served.functions.get(name);
    if (!declared) throw functionNotFound(name);
    const release = this.#admission.accept();
    try {
      return await callForEvent(this.#pool, declared, call);
    } finally {
      release();
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#reloads.idle();
    await this.#watch?.close();
    this.#served = NO_FUNCTIONS;
    await this.#pool.stop();
    await this.#folders.keepOnly();
  }

  /** False when no worker can start, so every request would fail. */
  healthy(): boolean {
    return this.#pool.healthy;
  }

  /** Returns the status for the dashboard and tests. */
  status(): FunctionsStatus {
    return {
      workers: this.#pool.workers.map((worker) => ({
        pid: worker.child.pid,
        state: worker.state,
        responsive: worker.responsive,
        inFlight: worker.inFlight,
        readyMs: worker.readyAt === undefined ? undefined : worker.readyAt - worker.startedAt,
      })),
      functions: [...this.#served.functions.keys()],
      failures: this.#failures,
    };
  }

  /** Adds its numbers to those of the process. */
  measure(metrics: Metrics): void {
    metrics.read('svc_functions_workers', 'gauge', 'Workers of code functions.', () =>
      ['starting', 'ready'].map((state) => ({
        labels: { state },
        value: this.#pool.workers.filter((worker) => worker.state === state).length,
      })),
    );
    metrics.read('svc_functions_inflight', 'gauge', 'Calls that workers are answering.', () =>
      this.#pool.workers.reduce((sum, worker) => sum + worker.inFlight, 0),
    );
    metrics.read(
      'svc_functions_worker_restarts_total',
      'counter',
      'Workers that took the place of one that had died or degraded.',
      () => this.#replacedWorkers,
    );
  }

  async #reload(config: Config, required?: string): Promise<void> {
    if (this.#stopped) return;
    if (config.functions.length > 0) await this.#load(config, required);
    else {
      this.#served = NO_FUNCTIONS;
      this.#pool.clear();
      await this.#watch?.close();
      this.#watch = undefined;
    }
    this.#config = config;
  }

  async #load(config: Config, required?: string): Promise<void> {
    const development = this.#options.mode === 'development';
    const folder = await this.#folders.open(config);
    try {
      checkFunctions(config.functions, folder.root, this.#runtime);
      if (development) await this.#install(folder.root);
      await this.#serve(await readGeneration(config, folder.root), folder.root, required);
      this.#folder = folder;
    } finally {
      await this.#folders.keepOnly(this.#folder);
    }
    if (development) await this.#watchSources(config, folder.root);
  }

  async #install(root: string): Promise<void> {
    if (this.#installedFor === root) return;
    const { env, log } = this.#serving.context;
    await installDependencies({ directory: root, env, log });
    this.#installedFor = root;
    this.#dependencies = dependencyState(root);
  }

  /** Logs once for each change that dependencies have changed since the start. */
  #reportDependencies(): void {
    if (this.#installedFor === undefined) return;
    const state = dependencyState(this.#installedFor);
    if (state === this.#dependencies) return;
    this.#dependencies = state;
    this.#serving.context.log.warn(
      'functions/package.json or its lockfile has changed: restart `svc dev` to install and use the dependencies',
    );
  }

  async #serve(next: Generation, root: string, required?: string): Promise<void> {
    if (next.key === this.#served.key && this.#pool.workers.length > 0) {
      this.#served = next;
      return;
    }
    const { size, processes = 1, memoryMb, loopbackUrl, publishableKey } = this.#options;
    const { context, serviceToken } = this.#serving;
    const { env, log, dev } = context;
    const redact = redactor(next.secrets);
    let failure: string | undefined;
    await this.#pool.replace(
      {
        size: size ?? Math.max(1, Math.floor(workersFrom(env) / processes)),
        log,
        onLoaded: (loaded) => {
          if (loaded.name === required && loaded.failure) failure = shownError(loaded.failure);
          else this.#onLoaded(loaded);
        },
        assertLoaded: () => {
          if (required !== undefined && failure !== undefined) throw notLoaded(required, redact(failure));
        },
        onReplaced: () => {
          this.#replacedWorkers += 1;
        },
        worker: {
          runtime: this.#runtime,
          memoryMb: memoryMb ?? memoryFrom(env),
          settings: {
            root,
            functions: [...next.functions.values()].map(({ fn: { name, file } }) => ({ name, file })),
            url: loopbackUrl(),
            publishableKey,
          },
          env,
          log,
          redact,
          showErrors: dev,
          serviceToken,
        },
      },
      () => (this.#served = next),
    );
  }

  /** (Re)starts the watch of the sources if its roots changed. */
  async #watchSources(config: Config, root: string): Promise<void> {
    const roots = await sourcePaths(root, config.functions);
    if (this.#watch?.roots.join('\n') === roots.join('\n')) return;
    await this.#watch?.close();
    this.#watch = watchSources(root, roots, () => void this.#onSourceChange());
  }

  async #onSourceChange(): Promise<void> {
    const { log } = this.#serving.context;
    log.debug('the sources of functions changed');
    const before = this.#served.key;
    this.#reportDependencies();
    try {
      await this.refresh();
      if (this.#served.key !== before) log.info('the functions were reloaded');
    } catch (error) {
      if (error instanceof Problem) log.error({ details: error.details, hint: error.hint }, error.message);
      else log.error({ err: error }, 'the functions could not be reloaded');
    }
  }

  #onLoaded({ name, failure, ms }: Loaded): void {
    const { log } = this.#serving.context;
    if (!failure) {
      this.#failures.delete(name);
      log.debug({ function: name, ms: Math.round(ms) }, 'loaded a function');
      return;
    }
    const error = shownError(failure);
    this.#failures.set(name, error);
    log.error({ function: name, error }, 'a function could not be loaded');
  }

  get #serving(): Attached {
    return must(this.#attached, 'the feature context');
  }
}

function shownError({ stack, message }: Failure): string {
  return stack ?? message;
}
