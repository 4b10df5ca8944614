// The list of rooms and the open room.
import { useCallback, useEffect, useState, type FormEvent, type JSX } from 'react';
import type { User } from '@supabase/supabase-js';
import { supabase, fieldText } from './client.ts';
import { RoomView } from './room.tsx';
import { useRooms } from './use-rooms.ts';

export function Chat({ me }: { readonly me: User }): JSX.Element {
  const { rooms, reload } = useRooms(me.id);
  const [chosen, setChosen] = useState<string>();
  const [problem, setProblem] = useState<string>();
  // A user who is removed from a room no longer has it in the list, so it closes.
  const open = rooms?.find(({ id }) => id === chosen) ?? rooms?.[0];

  const enter = useCallback(
    async (call: PromiseLike<{ data: string | null; error: { message: string } | null }>) => {
      const { data, error } = await call;
      setProblem(error?.message);
      if (data === null) return;
      await reload();
      setChosen(data);
    },
    [reload],
  );

  useEffect(() => {
    const accept = (): void => {
      const code = /^#join=([0-9a-f-]{36})$/.exec(location.hash)?.[1];
      if (code === undefined) return;
      history.replaceState(null, '', location.pathname);
      void enter(supabase.rpc('join_room', { code }));
    };
    accept();
    window.addEventListener('hashchange', accept);
    return () => window.removeEventListener('hashchange', accept);
  }, [enter]);

  const create = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    const form = event.currentTarget;
    const name = fieldText(form, 'name');
    if (name === '') return;
    form.reset();
    void enter(supabase.rpc('create_room', { name }));
  };

  return (
    <div className="chat">
      <nav aria-label="Rooms">
        <h1>Chat</h1>
        <ul>
          {rooms?.map((room) => (
            <li key={room.id}>
              <button
                type="button"
                aria-current={room.id === open?.id ? 'page' : undefined}
                onClick={() => setChosen(room.id)}
              >
                {room.name}
              </button>
            </li>
          ))}
        </ul>
        <form onSubmit={create}>
          <input name="name" aria-label="Name of a new room" placeholder="New room" maxLength={80} required />
          <button type="submit" className="primary">
            Create
          </button>
        </form>
        {problem !== undefined && <p role="alert">{problem}</p>}
        <footer>
          <span>{String(me.user_metadata['name'] ?? me.email)}</span>
          <button
            type="button"
            className="quiet"
            onClick={() => void supabase.auth.signOut({ scope: 'local' })}
          >
            Sign out
          </button>
        </footer>
      </nav>
      {open && <RoomView key={open.id} room={open} me={me.id} />}
      {rooms?.length === 0 && (
        <main className="empty">
          <p>You are in no room. Create one, or open an invitation.</p>
        </main>
      )}
    </div>
  );
}
