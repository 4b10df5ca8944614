// Reads and writes the messages in the frames of a socket, in both versions of the protocol.
//
//   version 1   {"topic","event","payload","ref"[,"join_ref"]}
//   version 2   [join_ref, ref, topic, event, payload], and binary frames for broadcasts
//
// A payload is always an object, because clients read its keys without a check.

/** Major version of `vsn` in the URL: 1.0.0 or 2.0.0. */
export type Version = 1 | 2;

/** Payload of a broadcast: text of a JSON value, or bytes. */
export type BroadcastContent = { readonly json: string } | { readonly bytes: Uint8Array };

export type ClientMessage = {
  readonly joinRef: string | null;
  readonly ref: string | null;
  readonly topic: string;
  readonly event: string;
  readonly payload: Readonly<Record<string, unknown>>;
  /** Set for a broadcast in a binary frame. `payload` is then empty. */
  readonly binary?: { readonly event: string; readonly content: BroadcastContent } | undefined;
};

/** The frame is not a message. Closes the connection with 1003. */
export class UnreadableFrame extends Error {}

const USER_BROADCAST_PUSH = 3;
const USER_BROADCAST = 4;
const RAW = 0;
const JSON_TEXT = 1;
const PUSH_HEAD = 7;
/** A binary head encodes each length in one byte. */
const MAX_HEAD_BYTES = 255;

const utf8 = new TextDecoder('utf-8', { fatal: true });
const latin1 = new TextDecoder('latin1');

/** Throws `UnreadableFrame`. */
export function readText(text: string, version: Version): ClientMessage {
  const value = parseJson(text);
  if (version === 2) {
    if (!Array.isArray(value) || value.length !== 5) throw new UnreadableFrame('not a message');
    const [joinRef, ref, topic, event, payload] = value as unknown[];
    return toMessage(joinRef, ref, topic, event, payload);
  }
  if (!isObject(value)) throw new UnreadableFrame('not a message');
  return toMessage(value['join_ref'], value['ref'], value['topic'], value['event'], value['payload']);
}

/** Throws `UnreadableFrame`. Only version 2 has binary frames. */
export function readBinary(frame: Uint8Array): ClientMessage {
  if (frame.length < PUSH_HEAD || frame[0] !== USER_BROADCAST_PUSH) throw new UnreadableFrame('unknown kind');
  const [, joinRefLength = 0, refLength = 0, topicLength = 0, eventLength = 0, metaLength = 0, encoding] =
    frame;
  let at = PUSH_HEAD;
  const next = (length: number): Uint8Array => frame.subarray(at, (at += length));
  const joinRef = decode(next(joinRefLength));
  const ref = decode(next(refLength));
  const topic = decode(next(topicLength));
  const event = decode(next(eventLength));
  // The only known key of the metadata, `persist`, has no effect in svc.
  next(metaLength);
  if (at > frame.length) throw new UnreadableFrame('cut off');
  const rest = frame.subarray(at);
  return {
    joinRef: joinRef === '' ? null : joinRef,
    ref: ref === '' ? null : ref,
    topic,
    event: 'broadcast',
    payload: {},
    binary: { event, content: readContent(rest, encoding) },
  };
}

function readContent(bytes: Uint8Array, encoding: number | undefined): BroadcastContent {
  // The socket reuses the memory of the frame, and raw bytes are sent later.
  if (encoding === RAW) return { bytes: bytes.slice() };
  if (encoding !== JSON_TEXT) throw new UnreadableFrame('unknown encoding');
  const json = tryDecodeUtf8(bytes);
  // Receivers parse the text and would fail.
  if (json === undefined || parseJson(json) === undefined) throw new UnreadableFrame('not JSON');
  return { json };
}

/** Decodes text that is not UTF-8 as Latin-1, because client 2.107 wrote the low bytes of UTF-16 units. */
function decode(bytes: Uint8Array): string {
  return tryDecodeUtf8(bytes) ?? latin1.decode(bytes);
}

function tryDecodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

function toMessage(
  joinRef: unknown,
  ref: unknown,
  topic: unknown,
  event: unknown,
  payload: unknown,
): ClientMessage {
  if (typeof topic !== 'string' || typeof event !== 'string') throw new UnreadableFrame('not a message');
  return {
    joinRef: toRef(joinRef),
    ref: toRef(ref),
    topic,
    event,
    payload: isObject(payload) ? payload : {},
  };
}

function toRef(value: unknown): string | null {
  if (typeof value === 'string') return value;
  return typeof value === 'number' ? String(value) : null;
}

/** Throws `UnreadableFrame` for a value that is nested too deeply to be written. */
export function jsonText(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new UnreadableFrame('nested too deeply');
  }
}

/** Throws `UnreadableFrame`. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UnreadableFrame('not JSON');
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export type ServerMessage = {
  readonly joinRef?: string | null | undefined;
  readonly ref?: string | null | undefined;
  readonly topic: string;
  readonly event: string;
  /** Text of a JSON object. */
  readonly payload: string;
};

/** `joinRef` and `ref` are null unless the message is a reply. */
export function writeText(
  { joinRef = null, ref = null, topic, event, payload }: ServerMessage,
  version: Version,
): string {
  const refText = JSON.stringify(ref);
  const topicText = JSON.stringify(topic);
  const eventText = JSON.stringify(event);
  return version === 2
    ? `[${JSON.stringify(joinRef)},${refText},${topicText},${eventText},${payload}]`
    : `{"topic":${topicText},"event":${eventText},"payload":${payload},"ref":${refText}}`;
}

/** Encodes a broadcast of bytes for version 2. Version 1 cannot encode it. `meta`: text of a JSON object, or empty. */
export function writeBinaryBroadcast(topic: string, event: string, bytes: Uint8Array, meta = ''): Buffer {
  const head = [topic, event, meta].map((text) => Buffer.from(text));
  if (head.some((part) => part.length > MAX_HEAD_BYTES)) throw new RangeError('longer than 255 bytes');
  const lengths = head.map((part) => part.length);
  return Buffer.concat([Uint8Array.from([USER_BROADCAST, ...lengths, RAW]), ...head, bytes]);
}

/** Returns whether a topic or an event fits into the head of a binary frame. */
export function fitsBinaryHead(text: string): boolean {
  return Buffer.byteLength(text) <= MAX_HEAD_BYTES;
}
