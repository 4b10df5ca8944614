// Reads the broadcasts of clients.
import { fitsBinaryHead, jsonText, type BroadcastContent, type ClientMessage } from '../protocol/message.ts';
import type { Broadcast } from '../protocol/room-message.ts';

/**
 * Returns the broadcast, or a string with the reason for rejecting it. Throws `UnreadableFrame` for a payload that is
 * nested too deeply.
 */
export function readBroadcast(message: ClientMessage, maxBytes: number): Broadcast | string {
  const { binary, payload } = message;
  const event = binary ? binary.event : payload['event'];
  if (typeof event !== 'string') return 'A broadcast names its `event`';
  if (!fitsBinaryHead(event)) return 'The name of an event has at most 255 bytes';
  const content: BroadcastContent = binary?.content ?? { json: jsonText(payload['payload'] ?? {}) };
  const bytes = 'json' in content ? Buffer.byteLength(content.json) : content.bytes.length;
  if (bytes > maxBytes) return `The payload is larger than ${maxBytes} bytes`;
  return { event, content };
}
