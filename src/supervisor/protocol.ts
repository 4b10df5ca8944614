// Messages between a parent and its workers, sent as JSON.
import type { RecentLine } from '../log/recent-lines.ts';

/** First message to a worker, with everything that is not on its command line. */
export type Start = {
  readonly kind: 'start';
  /** Number of the worker, from 1. A replacement has the same number. Appears in log lines as `process`. */
  readonly process: number;
  /** How many there are: what is meant for the machine is divided by it. */
  readonly processes: number;
  /** Names the parent and all its workers: they are one instance. 8 hexadecimal digits. */
  readonly instance: string;
  /** The part of the environment that no process of the machine is to see. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * True if no other worker listens: the port opens early, as with one process. Otherwise it opens when the worker is
   * ready.
   */
  readonly first: boolean;
  /** Port of the other workers. */
  readonly port?: number | undefined;
};

export type ToWorker =
  | Start
  /** Read the file again. */
  | { readonly kind: 'reload'; readonly id: number; readonly quiet: boolean }
  /** The service shuts down: `/ready` is 503, the port stays open. */
  | { readonly kind: 'leave' }
  /** The delay after that is over. */
  | { readonly kind: 'drain' }
  /** Another worker has taken its place: close the port, end what is under way. */
  | { readonly kind: 'replaced' }
  /** Open or close the port. */
  | { readonly kind: 'listen'; readonly open: boolean }
  | { readonly kind: 'answer'; readonly id: number; readonly value: unknown }
  /** New log lines of all processes, for whom follows them. */
  | { readonly kind: 'lines'; readonly lines: readonly RecentLine[] };

/** Configuration that a worker serves. */
export type Served = {
  /** Hash of the configuration as it was read, to see whether two serve the same. */
  readonly config: string;
  readonly drainDelayMs: number;
};

export type Report = {
  readonly ready: boolean;
  /** True if `/ready` was requested recently. */
  readonly probed: boolean;
  readonly memoryBytes: number;
  readonly connections: number;
};

export type FromWorker =
  /** Once a second, from the first message it has received to its end. */
  | {
      readonly kind: 'report';
      /** Absent until it serves. */
      readonly report?: Report | undefined;
      /** Log lines since the last one. */
      readonly lines: readonly string[];
    }
  | { readonly kind: 'serving'; readonly port: number; readonly served: Served }
  | {
      readonly kind: 'reloaded';
      readonly id: number;
      /** Absent when the file was refused. */
      readonly served?: Served | undefined;
    }
  /** The worker received a signal that the parent did not send. */
  | { readonly kind: 'signalled' }
  | { readonly kind: 'follow'; readonly on: boolean }
  | { readonly kind: 'ask'; readonly id: number; readonly question: Question };

export type Question =
  /** Let the others load what this one has just loaded. Answered with null, when they have. */
  | { readonly about: 'reload' }
  /** Answered with a list of RecentLine. */
  | { readonly about: 'lines'; readonly after: number }
  /** Answered with a list of ProcessFigures. */
  | { readonly about: 'processes' };

/** Figures of one process of this machine. The parent has number 0 and no connections. */
export type ProcessFigures = {
  readonly process: number;
  readonly pid: number;
  readonly ready: boolean;
  readonly memoryBytes: number;
  readonly connections: number;
};

/** Environment variable of a worker, which then waits for its start message. */
export const WORKER_MARK = 'SVC_WORKER';
export const REPORT_MS = 1_000;
