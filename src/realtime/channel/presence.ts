// Reads the presence messages of clients.
import { isObject, jsonText, type ClientMessage } from '../protocol/message.ts';

export type PresenceRequest =
  | { readonly kind: 'untrack' }
  /** `payload`: text of a JSON object. */
  | { readonly kind: 'track'; readonly payload: string }
  | { readonly kind: 'invalid'; readonly reason: string }
  | { readonly kind: 'too-large' };

/** Throws `UnreadableFrame` for a payload that is nested too deeply. */
export function readPresence(message: ClientMessage, maxBytes: number): PresenceRequest {
  const { event, payload } = message.payload;
  const action = typeof event === 'string' ? event.toLowerCase() : '';
  if (action === 'untrack') return { kind: 'untrack' };
  if (action !== 'track' || !isObject(payload ?? {})) {
    return { kind: 'invalid', reason: 'A payload of presence is an object' };
  }
  const text = jsonText(payload ?? {});
  return Buffer.byteLength(text) > maxBytes ? { kind: 'too-large' } : { kind: 'track', payload: text };
}
