// Members of the team, their roles, and invitations.
import { useState, type JSX } from 'react';
import { supabase, type Member, type Team } from './client.ts';

type Invited = 'editor' | 'viewer';

export function Members({
  team,
  members,
  me,
  isOwner,
}: {
  readonly team: Team;
  readonly members: readonly Member[];
  readonly me: string;
  readonly isOwner: boolean;
}): JSX.Element {
  const [link, setLink] = useState<string>();
  const [problem, setProblem] = useState<string>();

  const invite = async (role: Invited): Promise<void> => {
    const { data, error } = await supabase
      .from('invitations')
      .insert({ team_id: team.id, role })
      .select('id')
      .single();
    setProblem(error?.message);
    setLink(data ? `${location.origin}${location.pathname}#join=${data.id}` : undefined);
  };
  const change = async (user: string, role: Invited): Promise<void> => {
    const { error } = await supabase
      .from('members')
      .update({ role })
      .match({ team_id: team.id, user_id: user });
    setProblem(error?.message);
  };
  const remove = async (user: string): Promise<void> => {
    const { error } = await supabase.from('members').delete().match({ team_id: team.id, user_id: user });
    setProblem(error?.message);
  };

  return (
    <aside aria-label="Members">
      <h2>Members</h2>
      <ul>
        {members.map(({ user_id: user, name, role }) => (
          <li key={user} className="line">
            <span className="name">{name}</span>
            {isOwner && user !== me ? (
              <select
                aria-label={`Role of ${name}`}
                value={role}
                onChange={(event) => void change(user, event.currentTarget.value as Invited)}
              >
                <option>editor</option>
                <option>viewer</option>
              </select>
            ) : (
              <small>{role}</small>
            )}
            {isOwner && user !== me && (
              <button
                type="button"
                className="quiet"
                aria-label={`Remove ${name}`}
                onClick={() => void remove(user)}
              >
                ×
              </button>
            )}
            {!isOwner && user === me && (
              <button type="button" className="quiet" onClick={() => void remove(me)}>
                Leave
              </button>
            )}
          </li>
        ))}
      </ul>
      {isOwner && (
        <>
          <button type="button" onClick={() => void invite('editor')}>
            Invite an editor
          </button>
          <button type="button" onClick={() => void invite('viewer')}>
            Invite a viewer
          </button>
        </>
      )}
      {link !== undefined && (
        <label>
          Send this link
          <input readOnly value={link} onFocus={(event) => event.currentTarget.select()} />
        </label>
      )}
      {problem !== undefined && <p role="alert">{problem}</p>}
    </aside>
  );
}
