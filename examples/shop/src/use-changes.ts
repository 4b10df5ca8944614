// One channel for the page: whatever changes in a table that I may read, it says that it is time to load again.
import { useEffect, useState } from 'react';
import type { RealtimeChannel } from '@supabase/supabase-js';
import { supabase } from './client.ts';

let turn: Promise<unknown> = Promise.resolve();

/** A number that grows with every change, and whenever the channel is joined again. */
export function useChanges(me: string | undefined): number {
  const [changes, setChanges] = useState(0);

  useEffect(() => {
    if (me === undefined) return undefined;
    let channel: RealtimeChannel | undefined;
    let isOver = false;
    const note = (): void => setChanges((before) => before + 1);
    // One after another: while a channel is being left, the library gives the same one again. A private channel needs
    // the user's token in its first join, hence setAuth.
    turn = turn
      .then(() => supabase.realtime.setAuth())
      .then(() => {
        if (isOver) return;
        channel = supabase.channel(`user:${me}`, { config: { private: true } });
        for (const table of ['products', 'orders'])
          channel.on('postgres_changes', { event: '*', schema: 'public', table }, note);
        // After every join, because nobody tells what happened before it.
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
