import { createClient, type RealtimeChannel } from '@supabase/supabase-js';
import type { Database } from './database.ts';

export const supabase = createClient<Database>(
  import.meta.env['VITE_SVC_URL'] ?? 'http://localhost:8080',
  import.meta.env['SVC_PUBLISHABLE_KEY'],
);

export type Room = Database['public']['Tables']['rooms']['Row'];
export type Member = Database['public']['Tables']['members']['Row'];
export type Message = Database['public']['Tables']['messages']['Row'];

let turn: Promise<unknown> = Promise.resolve();

/**
 * Opens a channel while a component shows it. Waits for the previous channel: until it has been left, the library
 * returns the same one again. Private channels need the user's token in their first join, hence setAuth.
 */
export function openChannel(open: () => RealtimeChannel): () => void {
  let channel: RealtimeChannel | undefined;
  let isOver = false;
  turn = turn
    .then(() => supabase.realtime.setAuth())
    .then(() => {
      if (!isOver) channel = open();
    });
  return () => {
    isOver = true;
    turn = turn.then(async () => {
      if (channel) await supabase.removeChannel(channel);
    });
  };
}

export function fieldText(form: HTMLFormElement, name: string): string {
  const value = new FormData(form).get(name);
  return typeof value === 'string' ? value.trim() : '';
}
