// What a message says, in a line.
import type { WatchedFrame } from '../../../../src/dashboard-api/contract.ts';
import { isAccepted } from './use-watch.ts';

export type Kind = 'broadcast' | 'presence' | 'change' | 'channel' | 'problem';

export type FrameWords = { readonly kind: Kind; readonly title: string; readonly text: string };

export function wordsOf(frame: WatchedFrame): FrameWords {
  const { event, payload } = frame;
  switch (event) {
    case 'broadcast':
      return { kind: 'broadcast', title: String(at(payload, 'event')), text: json(at(payload, 'payload')) };
    case 'presence_state': {
      const keys = keysOf(payload);
      return { kind: 'presence', title: 'present', text: keys.length === 0 ? 'nobody' : keys.join(', ') };
    }
    case 'presence_diff': {
      const joins = keysOf(at(payload, 'joins')).map((key) => `+ ${key}`);
      const leaves = keysOf(at(payload, 'leaves')).map((key) => `− ${key}`);
      return { kind: 'presence', title: 'presence', text: [...joins, ...leaves].join('  ') };
    }
    case 'postgres_changes': {
      const data = at(payload, 'data');
      const type = String(at(data, 'type'));
      const row = type === 'DELETE' ? at(data, 'old_record') : at(data, 'record');
      return { kind: 'change', title: `${type} ${String(at(data, 'table'))}`, text: json(row) };
    }
    case 'phx_reply':
      return isAccepted(frame)
        ? { kind: 'channel', title: 'joined', text: '' }
        : { kind: 'problem', title: 'refused', text: String(at(at(payload, 'response'), 'reason')) };
    case 'phx_close':
      return { kind: 'problem', title: 'closed', text: 'A client does not join again by itself.' };
    case 'phx_error':
      return { kind: 'problem', title: 'fault', text: 'A client joins again by itself.' };
    case 'system':
      return {
        kind: at(payload, 'status') === 'ok' ? 'channel' : 'problem',
        title: 'system',
        text: String(at(payload, 'message')),
      };
    default:
      return { kind: 'channel', title: event, text: json(payload) };
  }
}

function at(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
}

function keysOf(value: unknown): string[] {
  return typeof value === 'object' && value !== null ? Object.keys(value) : [];
}

function json(value: unknown): string {
  return JSON.stringify(value) ?? '';
}
