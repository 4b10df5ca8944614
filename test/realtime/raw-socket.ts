// A client that sends arbitrary frames, in both versions of the protocol.
import { once } from 'node:events';
import { WebSocket } from 'ws';
import { expect } from 'vitest';

export type Frame = {
  joinRef: string | null;
  ref: string | null;
  topic: string;
  event: string;
  payload: Record<string, unknown>;
};

export class RawSocket {
  readonly ws: WebSocket;
  readonly frames: Frame[] = [];
  readonly binary: Buffer[] = [];
  closed: { code: number; reason: string } | undefined;
  readonly #version: 1 | 2;
  #ref = 0;

  constructor(ws: WebSocket, version: 1 | 2) {
    this.ws = ws;
    this.#version = version;
    ws.on('message', (data: Buffer, isBinary) => {
      if (isBinary) this.binary.push(data);
      else this.frames.push(read(data.toString(), version));
    });
    ws.on('close', (code, reason) => {
      this.closed = { code, reason: reason.toString() };
    });
    ws.on('error', () => {});
  }

  static async open(
    url: string,
    key: string,
    { version = 2, headers = {} }: { version?: 1 | 2; headers?: Record<string, string> } = {},
  ): Promise<RawSocket> {
    const address = `${url.replace(/^http/, 'ws')}/realtime/v1/websocket?apikey=${key}&vsn=${version}.0.0`;
    const ws = new WebSocket(address, { headers });
    const socket = new RawSocket(ws, version);
    await once(ws, 'open');
    return socket;
  }

  /** Sends a message and returns its ref. */
  push(topic: string, event: string, payload: unknown = {}, joinRef: string | null = null): string {
    const ref = String(++this.#ref);
    this.pushAs(topic, event, payload, event === 'phx_join' ? ref : joinRef, ref);
    return ref;
  }

  pushAs(topic: string, event: string, payload: unknown, joinRef: string | null, ref: string | null): void {
    const text =
      this.#version === 2
        ? JSON.stringify([joinRef, ref, topic, event, payload])
        : JSON.stringify({ topic, event, payload, ref, join_ref: joinRef });
    this.ws.send(text);
  }

  async reply(ref: string): Promise<{ status: string; response: Record<string, unknown> }> {
    const frame = await this.frame((frame) => frame.event === 'phx_reply' && frame.ref === ref);
    return frame.payload as { status: string; response: Record<string, unknown> };
  }

  /**
   * Joins and returns the join_ref. Retries while changes cannot be read yet, like clients do: a new slot waits for
   * all writes on the server, including those of other tests.
   */
  async join(name: string, config: Record<string, unknown> = {}, token?: string): Promise<string> {
    for (;;) {
      const ref = this.push(`realtime:${name}`, 'phx_join', { config, access_token: token });
      const answer = await this.reply(ref);
      if (String(answer.response['reason']).startsWith('InitializingProjectConnection')) continue;
      expect(answer, JSON.stringify(answer.response)).toMatchObject({ status: 'ok' });
      return ref;
    }
  }

  async frame(matches: (frame: Frame) => boolean): Promise<Frame> {
    await expect.poll(() => this.frames.find(matches)).toBeDefined();
    return this.frames.find(matches)!;
  }

  of(event: string): Frame[] {
    return this.frames.filter((frame) => frame.event === event);
  }

  /** Resolves when everything that was sent to this socket before has arrived. */
  async settle(): Promise<void> {
    await this.reply(this.push('phoenix', 'heartbeat'));
  }

  close(): void {
    this.ws.terminate();
  }
}

function read(text: string, version: 1 | 2): Frame {
  const value = JSON.parse(text) as unknown;
  if (version === 2) {
    const [joinRef, ref, topic, event, payload] = value as [string, string, string, string, Frame['payload']];
    return { joinRef, ref, topic, event, payload };
  }
  const { topic, event, payload, ref } = value as Frame;
  return { joinRef: null, ref, topic, event, payload };
}

/** A broadcast as version 2 sends it. `encoding`: 1 is JSON, 0 is bytes. */
export function userBroadcast(
  topic: string,
  event: string,
  payload: Uint8Array,
  {
    joinRef = '',
    ref = '',
    encoding = 1,
    meta = '',
    text = 'utf8',
  }: { joinRef?: string; ref?: string; encoding?: 0 | 1; meta?: string; text?: BufferEncoding } = {},
): Buffer {
  const parts = [joinRef, ref, topic, event, meta].map((part) => Buffer.from(part, text));
  return Buffer.concat([Buffer.from([3, ...parts.map((part) => part.length), encoding]), ...parts, payload]);
}
