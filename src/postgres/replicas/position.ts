// Positions in the write-ahead log (`pg_lsn`), and a persistent connection that queries one server for them.
import { openWire, type ConnectionSettings, type OpenWire } from '../connection.ts';
import { NeverSent } from '../pg-error.ts';
import type { Batch, WireResult } from '../wire/wire.ts';

/** A WAL position as a comparable number. */
export type Position = bigint;

/** `16/B374D848`: two halves of 64 bits. */
export function parsePosition(text: string): Position {
  const [high = '', low = ''] = text.split('/');
  return (BigInt(`0x${high}`) << 32n) | BigInt(`0x${low}`);
}

/** A query sent to a server. */
export type Question = {
  /** True after its bytes have left this process. The response may then be older than later reads. */
  readonly isSent: boolean;
  /** Columns of the single row. */
  readonly answer: Promise<ReadonlyArray<string | null>>;
};

/** A server that does not respond within this time is unreachable. */
const ANSWER_MS = 2_000;
const CONNECT_MS = 2_000;
/** Pause after a failure. Calls during the pause return the last failure. */
const PAUSE_MS = 250;

/** Repeats one query on one connection, never two at a time. */
export class AskedServer {
  readonly #settings: ConnectionSettings;
  readonly #query: string;
  #connection: OpenWire | undefined;
  #failure = { at: Number.NEGATIVE_INFINITY, error: new Error('not asked yet') };
  #isClosed = false;

  constructor(settings: ConnectionSettings, query: string) {
    this.#settings = {
      connectTimeoutMs: CONNECT_MS,
      statementTimeoutMs: ANSWER_MS,
      ...settings,
    };
    this.#query = query;
  }

  ask(): Question {
    let batch: Batch | undefined;
    const answer = this.#ask((sent) => (batch = sent));
    return {
      answer,
      get isSent() {
        return batch?.isSent === true;
      },
    };
  }

  close(): void {
    this.#isClosed = true;
    this.#connection?.wire.destroy();
  }

  async #ask(onSend: (batch: Batch | undefined) => void): Promise<ReadonlyArray<string | null>> {
    const { at, error } = this.#failure;
    if (this.#isClosed || performance.now() - at < PAUSE_MS) throw error;
    try {
      const kept = this.#connection;
      if (kept?.wire.usable === true) {
        try {
          return await this.#send(kept, onSend);
        } catch {
          // The kept connection may have ended while idle. A new one gives a definite result.
          kept.wire.destroy();
        }
      }
      return await this.#send(await this.#open(), onSend);
    } catch (error) {
      this.#connection?.wire.destroy();
      const failure = error instanceof Error ? error : new Error(String(error));
      this.#failure = { at: performance.now(), error: failure };
      throw failure;
    }
  }

  async #open(): Promise<OpenWire> {
    const opened = await openWire(this.#settings);
    this.#connection = opened;
    if (!this.#isClosed) return opened;
    opened.wire.destroy();
    throw new NeverSent(new Error('closed'));
  }

  #send(
    { wire }: OpenWire,
    onSend: (batch: Batch | undefined) => void,
  ): Promise<ReadonlyArray<string | null>> {
    return new Promise((resolve, reject) => {
      const silent = setTimeout(
        () => wire.destroy(new Error('the server did not report its position')),
        ANSWER_MS,
      );
      const settle = (error: Error | undefined, results: WireResult[]): void => {
        clearTimeout(silent);
        if (error) reject(error);
        else resolve((results[0]?.rows[0] ?? []).map((value) => value?.toString('latin1') ?? null));
      };
      onSend(wire.send([{ text: this.#query, values: [] }], settle, { isNameless: true, isRead: true }));
    });
  }
}
