// Faults and failures of code functions, sent to a collector as they are logged. What is sent is what the line has: no
// bodies, headers or claims, which no line has. A collector that is away costs reports and nothing else.
import { createHash, randomUUID } from 'node:crypto';
import type { Reading } from './metrics.ts';
import type { LineSink } from './recent-lines.ts';

const MAX_PER_MINUTE = 10;
const MINUTE_MS = 60_000;
const TIMEOUT_MS = 5_000;
/** Maximum number of distinguished errors. The oldest is evicted. */
const MAX_KINDS = 500;
const MAX_MESSAGE_LENGTH = 1_000;
const MAX_STACK_LENGTH = 8_000;

export type ErrorReportsOptions = {
  readonly url: string;
  /** The version that runs. */
  readonly release: string;
  readonly now?: () => number;
};

type Failure = { readonly code: string | undefined; readonly message: string; readonly stack: string };
type Kind = { sentAt: number; /** Not told of since. */ more: number };

export class ErrorReports implements LineSink {
  readonly #options: ErrorReportsOptions;
  readonly #now: () => number;
  readonly #kinds = new Map<string, Kind>();
  readonly #underWay = new Set<Promise<void>>();
  readonly #counts = { sent: 0, failed: 0, suppressed: 0 };
  /** Times of the reports in the last minute. */
  #sentAt: number[] = [];

  constructor(options: ErrorReportsOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  /** Each line of the log. */
  push(text: string): void {
    if (!text.startsWith('{"level":"error"') && !text.startsWith('{"level":"fatal"')) return;
    const line = parse(text);
    const failure = line && readFailure(line);
    if (line && failure) this.#report(line, failure);
  }

  readings(): Reading[] {
    return Object.entries(this.#counts).map(([result, value]) => ({ labels: { result }, value }));
  }

  /** Resolves when nothing is being sent. */
  async settled(): Promise<void> {
    await Promise.all(this.#underWay);
  }

  #report(line: Line, failure: Failure): void {
    const now = this.#now();
    const kind = this.#findKind(failure);
    this.#sentAt = this.#sentAt.filter((at) => now - at < MINUTE_MS);
    if (now - kind.sentAt < MINUTE_MS || this.#sentAt.length >= MAX_PER_MINUTE) {
      kind.more += 1;
      this.#counts.suppressed += 1;
      return;
    }
    const { time, requestId, route, function: name } = line;
    const body = JSON.stringify({
      id: randomUUID(),
      time,
      release: this.#options.release,
      ...failure,
      requestId,
      route,
      function: name,
      // This one, and those like it that were not sent.
      count: kind.more + 1,
    });
    this.#sentAt.push(now);
    kind.sentAt = now;
    kind.more = 0;
    const sending = this.#send(body).finally(() => this.#underWay.delete(sending));
    this.#underWay.add(sending);
  }

  #findKind(failure: Failure): Kind {
    const key = fingerprint(failure);
    const kind = this.#kinds.get(key) ?? { sentAt: Number.NEGATIVE_INFINITY, more: 0 };
    // The one that was seen last is at the end.
    this.#kinds.delete(key);
    this.#kinds.set(key, kind);
    const [oldest] = this.#kinds.keys();
    if (this.#kinds.size > MAX_KINDS && oldest !== undefined) this.#kinds.delete(oldest);
    return kind;
  }

  /** Never repeated: a collector that is slow must not be asked twice. */
  async #send(body: string): Promise<void> {
    try {
      const response = await fetch(this.#options.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
        redirect: 'error',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      await response.body?.cancel();
      this.#counts[response.ok ? 'sent' : 'failed'] += 1;
    } catch {
      this.#counts.failed += 1;
    }
  }
}

type Line = Readonly<Record<string, unknown>>;

function parse(text: string): Line | undefined {
  try {
    const line: unknown = JSON.parse(text);
    return isObject(line) ? line : undefined;
  } catch {
    return undefined;
  }
}

/** An error with its stack, as `err` or, of a code function, as text. Lines about requests and states have none. */
function readFailure({ err, error, msg }: Line): Failure | undefined {
  if (isObject(err)) {
    const { message, stack, code } = err;
    if (typeof stack !== 'string') return undefined;
    return {
      code: typeof code === 'string' ? code : undefined,
      message: short(message ?? msg, MAX_MESSAGE_LENGTH),
      stack: short(stack, MAX_STACK_LENGTH),
    };
  }
  if (typeof error !== 'string' || !/^\s+at /m.test(error)) return undefined;
  const [message = ''] = error.split('\n');
  return {
    code: undefined,
    message: short(message, MAX_MESSAGE_LENGTH),
    stack: short(error, MAX_STACK_LENGTH),
  };
}

/** Number of compared frames. Outer frames depend on the caller and do not distinguish errors. */
const MAX_FRAMES = 5;

/** Identifies an error by its location, because messages contain rows, requests and times. */
function fingerprint({ code = '', message, stack }: Failure): string {
  const frames = stack
    .split('\n')
    .filter((line) => /^\s+at /.test(line))
    .slice(0, MAX_FRAMES);
  const place = frames.length > 0 ? frames.join('\n') : message;
  return createHash('sha256').update(`${code}\n${place}`).digest('base64');
}

function short(value: unknown, most: number): string {
  const text = typeof value === 'string' ? value : '';
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

function isObject(value: unknown): value is Line {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
