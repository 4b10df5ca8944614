// Closed loops of bounded size: each client sends a request, waits for the response, and repeats. Every write has a
// unique id, so that each one can be looked up afterwards: acknowledged writes must exist, and refused ones must not.
import { randomUUID } from 'node:crypto';
import { appendFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { query } from './database.ts';
import { PUBLISHABLE_KEY } from './instance.ts';
import type { DatabaseMachine } from './machines.ts';
import { until } from './until.ts';

export type Call = {
  readonly kind: 'read' | 'write';
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  /** Returns the value that a write inserts into its table. */
  readonly id?: string;
  /** Returns the mistake in a successful response, if any. */
  readonly wrong?: (text: string) => string | undefined;
};

export type Answer = {
  readonly call: Call;
  /** 0: the connection broke without one. */
  readonly status: number;
  /** The code in the body of an error, or that of the broken connection. */
  readonly code: string;
  readonly text: string;
  readonly wrong: string | undefined;
  readonly startedAt: number;
  readonly endedAt: number;
};

export type LoadOptions = {
  /** URL of a balancer, or URLs of instances among which the clients are distributed. */
  readonly urls: readonly string[];
  readonly clients: number;
  readonly next: (number: number, client: number) => Call;
  /** Maximum number of calls. Without it the load ends at `stop`. */
  readonly total?: number;
  /** Between an answer and the next question of the same client. */
  readonly pause?: number;
  /** A new connection for each call. */
  readonly connectEachTime?: boolean;
  /** An address of the users' machine to come from, by client. */
  readonly from?: (client: number) => string;
  /** The longest that a client waits for an answer. */
  readonly patience?: number;
};

export class Load {
  readonly answers: Answer[] = [];
  readonly done: Promise<void>;
  #stopped = false;
  #asked = 0;
  readonly #options: LoadOptions;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.done = Promise.all(
      Array.from({ length: options.clients }, async (_, client) => await this.#client(client)),
    ).then(() => undefined);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await this.done;
  }

  /** Resolves after this many further responses. */
  async answered(count: number, limit = 120_000): Promise<void> {
    const goal = this.answers.length + count;
    await until(`${count} more answers`, limit, () => this.answers.length >= goal);
  }

  async #client(client: number): Promise<void> {
    const {
      urls,
      next,
      total = Number.POSITIVE_INFINITY,
      pause = 0,
      connectEachTime,
      from,
      patience,
    } = this.#options;
    const agent = new Agent({ keepAlive: connectEachTime !== true, maxSockets: 1 });
    const base = urls[client % urls.length]!;
    const settings = { agent, patience: patience ?? 60_000, localAddress: from?.(client) };
    while (!this.#stopped && this.#asked < total) {
      const call = next(this.#asked++, client);
      this.answers.push(await ask(base, call, settings));
      if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
    }
    agent.destroy();
  }

  /** Answers so far that `fits` holds for. */
  count(fits: (answer: Answer) => boolean): number {
    return this.answers.filter(fits).length;
  }

  get failed(): readonly Answer[] {
    return this.answers.filter((answer) => !succeeded(answer));
  }

  get wrong(): readonly Answer[] {
    return this.answers.filter(({ wrong }) => wrong !== undefined);
  }

  /** The longest that anybody waited for an answer. */
  longest(kind?: Call['kind']): number {
    return this.answers
      .filter(({ call }) => kind === undefined || call.kind === kind)
      .reduce((most, { startedAt, endedAt }) => Math.max(most, endedAt - startedAt), 0);
  }

  /** Time of the first successful response of this kind to a request that was sent after `time`. */
  firstSuccessAfter(time: number, kind: Call['kind']): number {
    return this.answers
      .filter((answer) => answer.call.kind === kind && answer.startedAt >= time && succeeded(answer))
      .reduce((first, { endedAt }) => Math.min(first, endedAt), Number.POSITIVE_INFINITY);
  }

  /** Returns a summary for the report, such as `read 200: 120, write 503 SVC113: 2`. */
  summary(): string {
    const counts = new Map<string, number>();
    for (const { call, status, code, wrong } of this.answers) {
      const label = `${call.kind} ${status || 'broken'}${code && ` ${code}`}${wrong === undefined ? '' : ' WRONG'}`;
      counts.set(label, (counts.get(label) ?? 0) + 1);
    }
    return [...counts]
      .map(([label, count]) => `${label}: ${count}`)
      .toSorted()
      .join(', ');
  }
}

export const succeeded = ({ status, wrong }: Answer): boolean =>
  status >= 200 && status < 300 && wrong === undefined;

type Settings = {
  readonly agent: Agent;
  readonly patience: number;
  readonly localAddress?: string | undefined;
};

type Raw = {
  readonly status: number;
  readonly text: string;
  readonly broken: string;
  readonly isMarked: boolean;
};

/** Sends one call. A broken connection counts as status 0. */
export async function ask(base: string, call: Call, settings: Partial<Settings> = {}): Promise<Answer> {
  const startedAt = Date.now();
  const { agent, patience = 60_000, localAddress } = settings;
  const body = call.body === undefined ? undefined : JSON.stringify(call.body);
  const { status, text, broken, isMarked } = await new Promise<Raw>((resolve) => {
    const request = httpRequest(`${base}${call.path}`, {
      method: call.method ?? (call.kind === 'read' ? 'GET' : 'POST'),
      headers: {
        apikey: PUBLISHABLE_KEY,
        ...(body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
        ...call.headers,
      },
      ...(agent === undefined ? {} : { agent }),
      ...(localAddress === undefined ? {} : { localAddress }),
    });
    const timer = setTimeout(() => request.destroy(new Error('no answer in time')), patience);
    const fail = (error: NodeJS.ErrnoException): void => {
      clearTimeout(timer);
      resolve({ status: 0, text: error.message, broken: error.code ?? error.message, isMarked: false });
    };
    request.on('error', fail);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => (text += chunk));
      response.on('error', fail);
      response.on('end', () => {
        clearTimeout(timer);
        const isMarked = response.headers['x-svc-staleness'] === 'unknown';
        resolve({ status: response.statusCode ?? 0, text, broken: '', isMarked });
      });
    });
    request.end(body);
  });
  const good = status >= 200 && status < 300;
  return {
    call,
    status,
    code: good ? '' : broken || codeIn(text),
    text: good ? '' : text.slice(0, 300),
    // A response that declares an unknown age may be old.
    wrong: good && !isMarked ? call.wrong?.(text) : undefined,
    startedAt,
    endedAt: Date.now(),
  };
}

function codeIn(text: string): string {
  const found = /"(?:code|error_code|error|status)":"([^"]+)"/.exec(text);
  return found?.[1] ?? text.slice(0, 40).replaceAll(/\s+/g, ' ');
}

/** A table of notes, as svc.yaml declares it. */
export const notesTable = (name: string, more = ''): string => `
  ${name}:
    fields:
      - { name: id, type: uuid, primary_key: true }
      - { name: body, type: text }${more}
    rls:
      - operations: [select, insert, update]
        using: "true"
        with_check: "true"
`;

/** The table that most scenarios read and write. */
export const NOTES = notesTable('notes');

/** Writes new notes, and reads acknowledged notes, which must exist. */
export class Notes {
  readonly #acknowledged: string[] = [];
  readonly #file: string;
  readonly #table: string;

  constructor(folder: string, table = 'notes') {
    this.#file = join(folder, `${table}-acknowledged`);
    this.#table = table;
  }

  /** `writes` of ten calls are writes. */
  next(writes: number): (number: number) => Call {
    return (number) => (number % 10 < writes || this.#acknowledged.length === 0 ? this.write() : this.read());
  }

  write(): Call {
    const id = randomUUID();
    return {
      kind: 'write',
      path: `/rest/v1/${this.#table}`,
      body: { id, body: `note ${id}` },
      id,
      // Called for successful answers only, before anybody else sees them.
      wrong: () => {
        appendFileSync(this.#file, `${id}\n`);
        this.#acknowledged.push(id);
        return undefined;
      },
    };
  }

  read(): Call {
    return this.readNote(this.#acknowledged[Math.floor(Math.random() * this.#acknowledged.length)]!);
  }

  readNote(id: string): Call {
    return {
      kind: 'read',
      path: `/rest/v1/${this.#table}?id=eq.${id}&select=id,body`,
      wrong: (text) =>
        text === JSON.stringify([{ id, body: `note ${id}` }])
          ? undefined
          : `note ${id} was read as ${text.slice(0, 120)}`,
    };
  }

  get acknowledged(): readonly string[] {
    return this.#acknowledged;
  }
}

/** Counts the writes of a load by their response and whether they exist. */
export type Accounts = {
  readonly acknowledged: number;
  /** Acknowledged writes that do not exist. There must never be any. */
  readonly lost: readonly string[];
  /** Writes that were answered as refused and not executed. */
  readonly refused: number;
  /** Writes that were answered as refused but exist. */
  readonly refusedYetThere: readonly Answer[];
  /** Writes with an unknown outcome, or without a response. */
  readonly unknown: number;
  readonly unknownAndThere: number;
};

export async function countWrites(
  database: string,
  loads: readonly Load[],
  table = 'notes',
  at?: DatabaseMachine,
): Promise<Accounts> {
  const rows = await query<{ id: string }>(database, `select id from ${table}`, [], at);
  const there = new Set(rows.map(({ id }) => id));
  const writes = loads
    .flatMap(({ answers }) => answers)
    .filter(({ call }) => call.kind === 'write' && call.id !== undefined);
  const isThere = ({ call }: Answer): boolean => there.has(call.id ?? '');
  const acknowledged = writes.filter(succeeded);
  const unknown = writes.filter((answer) => answer.status === 0 || answer.code === 'SVC112');
  const refused = writes.filter((answer) => !succeeded(answer) && !unknown.includes(answer));
  return {
    acknowledged: acknowledged.length,
    lost: acknowledged.filter((answer) => !isThere(answer)).map(({ call }) => call.id ?? ''),
    refused: refused.length,
    refusedYetThere: refused.filter(isThere),
    unknown: unknown.length,
    unknownAndThere: unknown.filter(isThere).length,
  };
}
