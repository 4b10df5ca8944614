// What a parent and its workers say to each other over the channel between them, as JSON.
import type { RecentLine } from '../log/recent-lines.ts';

/** The first message to a worker: all that it is not told on its command line. */
export type Start = {
  readonly kind: 'start';
  /** Its place, from 1; a worker that takes another's place has the same. In its log lines as `process`. */
  readonly process: number;
  /** How many there are: what is meant for the machine is divided by it. */
  readonly processes: number;
  /** Names the parent and all its workers: they are one instance. 8 hexadecimal digits. */
  readonly instance: string;
  /** The part of the environment that no process of the machine is to see. */
  readonly env: Readonly<Record<string, string>>;
  /** Nobody else listens: the port opens as early as it does with one process. Otherwise when it is ready. */
  readonly first: boolean;
  /** Where the others listen already. */
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

/** What a worker serves. */
export type Served = {
  /** Hash of the configuration as it was read, to see whether two serve the same. */
  readonly config: string;
  readonly drainDelayMs: number;
};

export type Report = {
  readonly ready: boolean;
  /** Somebody asked for `/ready` lately. */
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
  /** Somebody other than the parent has asked it to stop. */
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

/** Of one process of this machine. The parent is number 0 and has no connections. */
export type ProcessFigures = {
  readonly process: number;
  readonly pid: number;
  readonly ready: boolean;
  readonly memoryBytes: number;
  readonly connections: number;
};

/** In the environment of a worker: it waits for its start message. */
export const WORKER_MARK = 'SVC_WORKER';
export const REPORT_MS = 1_000;
