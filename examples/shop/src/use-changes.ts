// Uses one channel for the page: any change in a table that the user may read triggers a reload.
import { useEffect, useState } from 'react';
import type { RealtimeChannel } from '@supabase/supabase-js';
import { supabase } from './client.ts';

let turn: Promise<unknown> = Promise.resolve();

/** Returns a counter that grows with every change and every join of the channel. */
export function useChanges(me: string | undefined): number {
  const [changes, setChanges] = useState(0);

  useEffect(() => {
    if (me === undefined) return undefined;
    let channel: RealtimeChannel | undefined;
    let isOver = false;
    const note = (): void => setChanges((before) => before + 1);
    // Wait for the previous channel: until it has been left, the library returns the same one again. A private
    // channel needs the user's token in its first join, hence setAuth.
    turn = turn
      .then(() => supabase.realtime.setAuth())
      .then(() => {
        if (isOver) return;
        channel = supabase.channel(`user:${me}`, { config: { private: true } });
        for (const table of ['products', 'orders'])
          channel.on('postgres_changes', { event: '*', schema: 'public', table }, note);
        // Reload after every join, because changes before it are not sent.
        channel.subscribe((status) => {
          if (status === 'SUBSCRIBED') note();
        });
      });
    return () => {
      isOver = true;
      turn = turn.then(async () => {
        if (channel) await supabase.removeChannel(channel);
      });
    };
  }, [me]);

  return changes;
}
