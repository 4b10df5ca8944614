// The rooms of the current user. The list follows changes of the memberships.
import { useCallback, useEffect, useState } from 'react';
import { openChannel, supabase, type Room } from './client.ts';

export function useRooms(me: string): { rooms: readonly Room[] | undefined; reload: () => Promise<void> } {
  const [rooms, setRooms] = useState<readonly Room[]>();

  const reload = useCallback(async () => {
    const { data, error } = await supabase.from('rooms').select().order('created_at');
    if (!error) setRooms(data);
  }, []);

  useEffect(
    () =>
      openChannel(() => {
        const mine = { schema: 'public', table: 'members', filter: `user_id=eq.${me}` };
        return supabase
          .channel(`user:${me}`, { config: { private: true } })
          .on('postgres_changes', { event: 'INSERT', ...mine }, () => void reload())
          .on('postgres_changes', { event: 'DELETE', ...mine }, () => void reload())
          .subscribe((status) => {
            if (status === 'SUBSCRIBED') void reload();
          });
      }),
    [me, reload],
  );

  return { rooms, reload };
}
