// The user's teams and the open team.
import { useCallback, useEffect, useState, type FormEvent, type JSX } from 'react';
import type { User } from '@supabase/supabase-js';
import { supabase, fieldText, type Team } from './client.ts';
import { TeamView } from './team.tsx';
import { useChanges } from './use-changes.ts';

export function Documents({ me }: { readonly me: User }): JSX.Element {
  const changes = useChanges(me.id);
  const [teams, setTeams] = useState<readonly Team[]>();
  const [chosen, setChosen] = useState<string>();
  const [problem, setProblem] = useState<string>();
  // A user who is removed from a team no longer has it in the list, so it closes.
  const open = teams?.find(({ id }) => id === chosen) ?? teams?.[0];

  const reload = useCallback(async () => {
    const { data } = await supabase.from('teams').select().order('created_at');
    if (data) setTeams(data);
  }, []);
  useEffect(() => {
    if (changes > 0) void reload();
  }, [changes, reload]);

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
      const invitation = /^#join=([0-9a-f-]{36})$/.exec(location.hash)?.[1];
      if (invitation === undefined) return;
      history.replaceState(null, '', location.pathname);
      void enter(supabase.rpc('accept_invitation', { invitation }));
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
    void enter(supabase.rpc('create_team', { name }));
  };

  return (
    <div className="app">
      <nav aria-label="Teams">
        <h1>Team documents</h1>
        <ul>
          {teams?.map((team) => (
            <li key={team.id}>
              <button
                type="button"
                aria-current={team.id === open?.id ? 'page' : undefined}
                onClick={() => setChosen(team.id)}
              >
                {team.name}
              </button>
            </li>
          ))}
        </ul>
        <form onSubmit={create}>
          <input name="name" aria-label="Name of a new team" placeholder="New team" maxLength={80} required />
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
      {open && <TeamView key={open.id} team={open} me={me.id} changes={changes} />}
      {teams?.length === 0 && (
        <main className="empty">
          <p>You are in no team. Create one, or open an invitation.</p>
        </main>
      )}
    </div>
  );
}
