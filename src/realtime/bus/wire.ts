// Messages between instances as JSON: encoding, and packing into notifications.
import { createHash, randomUUID } from 'node:crypto';
import { isObject } from '../protocol/message.ts';
import type { InstanceReport, Outgoing, RoomState } from './bus.ts';
import { ENVELOPE_BYTES } from './envelope.ts';

const TOPIC_CHANNELS = 16;
export const PEERS_CHANNEL = 'svc_rt_peers';
export const CHANNELS = [...Array.from({ length: TOPIC_CHANNELS }, (_, at) => `svc_rt_${at}`), PEERS_CHANNEL];
/** PostgreSQL accepts less than 8,000 bytes. */
const MAX_PAYLOAD_BYTES = 7_900;
/** A larger message is sent as a row. */
const MAX_MESSAGE_BYTES = 7_500;

export type Wire =
  | Outgoing
  | { readonly kind: 'hello' | 'beat' | 'bye' }
  | { readonly kind: 'state'; readonly rooms: readonly RoomState[] }
  /** `digest`: SHA-256 of the row, in base64url. */
  | { readonly kind: 'row'; readonly id: string; readonly digest: string }
  | { readonly kind: 'ask'; readonly question: string }
  | { readonly kind: 'answer'; readonly question: string; readonly report: InstanceReport };

export type QueuedMessage = { readonly channel: string; readonly text: string };
export type OverflowRow = { readonly id: string; readonly body: string };
type Payload = { readonly channel: string; readonly texts: readonly string[] };

/** Returns the channel of a topic. One channel per topic keeps the order of its messages. */
export function topicChannel(topic: string): string {
  let hash = 0;
  for (let at = 0; at < topic.length; at++) hash = (hash * 31 + topic.charCodeAt(at)) >>> 0;
  return `svc_rt_${hash % TOPIC_CHANNELS}`;
}

/** Packs the messages of each channel into as few notifications as possible. Large messages become rows. */
export function pack(batch: readonly QueuedMessage[]): {
  readonly payloads: readonly Payload[];
  readonly rows: readonly OverflowRow[];
} {
  const rows: OverflowRow[] = [];
  const payloads: Array<{ channel: string; texts: string[]; bytes: number }> = [];
  const open = new Map<string, (typeof payloads)[number]>();
  for (const { channel, text } of batch) {
    let part = text;
    if (Buffer.byteLength(text) > MAX_MESSAGE_BYTES) {
      const id = randomUUID();
      rows.push({ id, body: text });
      part = JSON.stringify({ kind: 'row', id, digest: sha256(text) });
    }
    const bytes = Buffer.byteLength(part) + 1;
    let payload = open.get(channel);
    if (!payload || payload.bytes + bytes > MAX_PAYLOAD_BYTES - ENVELOPE_BYTES) {
      payload = { channel, texts: [], bytes: 0 };
      payloads.push(payload);
      open.set(channel, payload);
    }
    payload.texts.push(part);
    payload.bytes += bytes;
  }
  return { payloads, rows };
}

/** Encodes binary broadcasts as base64. */
export function encode(message: Wire): string {
  if (message.kind !== 'broadcast' || !('bytes' in message.broadcast.content)) return JSON.stringify(message);
  const { bytes } = message.broadcast.content;
  const content = { base64: Buffer.from(bytes).toString('base64') };
  return JSON.stringify({ ...message, broadcast: { ...message.broadcast, content } });
}

/** Returns undefined for a value that is not a message. */
export function decode(value: unknown): Wire | undefined {
  if (!isObject(value) || typeof value['kind'] !== 'string') return undefined;
  // The signature proves that an instance has written the message with `encode`.
  const message = value as unknown as Wire;
  if (message.kind !== 'broadcast') return message;
  const content: unknown = message.broadcast.content;
  if (!isObject(content) || typeof content['base64'] !== 'string') return message;
  const bytes = Buffer.from(content['base64'], 'base64');
  return { ...message, broadcast: { ...message.broadcast, content: { bytes } } };
}

export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
