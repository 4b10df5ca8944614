// A socket that subscribes to the changes of one table and stores only the ids of the rows.
import { once } from 'node:events';
import { WebSocket } from 'ws';
import type { Server } from '../backend.ts';

const HEARTBEAT_INTERVAL_MS = 20_000;

export class Subscriber {
  readonly #ws: WebSocket;
  readonly #beat: NodeJS.Timeout;
  /** `id` of each new row, in order of arrival. */
  readonly ids: number[] = [];
  /** Arrival time of each row, in `performance.now()`. */
  readonly times: number[] = [];

  private constructor(ws: WebSocket) {
    this.#ws = ws;
    this.#beat = setInterval(() => ws.send('[null,"2","phoenix","heartbeat",{}]'), HEARTBEAT_INTERVAL_MS);
    ws.on('message', (data: Buffer) => {
      const id = /"record":\{"id":(\d+)/.exec(data.toString())?.[1];
      if (id === undefined) return;
      this.ids.push(Number(id));
      this.times.push(performance.now());
    });
  }

  get lastReceivedAt(): number {
    return this.times.at(-1) ?? 0;
  }

  forget(): void {
    this.ids.length = 0;
    this.times.length = 0;
  }

  /** `token`: token of a user; anonymous without one. */
  static async open({ url, keys }: Server, table: string, token?: string): Promise<Subscriber> {
    const ws = new WebSocket(
      `${url.replace('http', 'ws')}/realtime/v1/websocket?apikey=${keys.publishable}&vsn=2.0.0`,
      { perMessageDeflate: false },
    );
    await once(ws, 'open');
    const binding = { event: 'INSERT', schema: 'public', table };
    const payload = { config: { postgres_changes: [binding] }, access_token: token };
    ws.send(JSON.stringify(['1', '1', 'realtime:bench', 'phx_join', payload]));
    const told = await new Promise<string>((resolve) => {
      ws.on('message', (message: Buffer) => {
        const text = message.toString();
        if (text.includes('"system"') || text.includes('"error"')) resolve(text);
      });
    });
    ws.removeAllListeners('message');
    if (!told.includes('Subscribed to PostgreSQL')) throw new Error(told);
    return new Subscriber(ws);
  }

  close(): void {
    clearInterval(this.#beat);
    this.#ws.terminate();
  }
}
