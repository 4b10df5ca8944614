// Summarises a message in one line.
import type { WatchedFrame } from '../../../../src/dashboard-api/contract.ts';
import { isAccepted } from './use-watch.ts';

export type Kind = 'broadcast' | 'presence' | 'change' | 'channel' | 'problem';

export type FrameSummary = { readonly kind: Kind; readonly title: string; readonly text: string };

export function summarizeFrame(frame: WatchedFrame): FrameSummary {
  const { event, payload } = frame;
  switch (event) {
    case 'broadcast':
      return { kind: 'broadcast', title: String(at(payload, 'event')), text: json(at(payload, 'payload')) };
    case 'presence_state': {
      const keys = presenceKeys(payload);
      return { kind: 'presence', title: 'present', text: keys.length === 0 ? 'nobody' : keys.join(', ') };
    }
    case 'presence_diff': {
      const joins = presenceKeys(at(payload, 'joins')).map((key) => `+ ${key}`);
      const leaves = presenceKeys(at(payload, 'leaves')).map((key) => `− ${key}`);
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
      return { kind: 'problem', title: 'closed', text: 'Clients do not rejoin automatically.' };
    case 'phx_error':
      return { kind: 'problem', title: 'fault', text: 'Clients rejoin automatically.' };
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

function presenceKeys(value: unknown): string[] {
  return typeof value === 'object' && value !== null ? Object.keys(value) : [];
}

function json(value: unknown): string {
  return JSON.stringify(value) ?? '';
}
