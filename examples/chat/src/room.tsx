// Shows a room: messages, typing indicator, members and their presence.
import { useEffect, useRef, useState, type FormEvent, type JSX } from 'react';
import { supabase, fieldText, type Member, type Message, type Room } from './client.ts';
import { useRoom } from './use-room.ts';

export function RoomView({ room, me }: { readonly room: Room; readonly me: string }): JSX.Element {
  const { messages, members, present, typing, isLive, notifyTyping } = useRoom(room.id, me);
  const [problem, setProblem] = useState<string>();
  const memberName = (user: string): string =>
    members.find(({ user_id }) => user_id === user)?.name ?? 'Former member';
  const typists = [...typing].filter((user) => user !== me).map(memberName);

  const send = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget;
    const body = fieldText(form, 'body');
    if (body === '') return;
    const { error } = await supabase.from('messages').insert({ room_id: room.id, body });
    setProblem(error?.message);
    if (!error) form.reset();
  };

  return (
    <>
      <main>
        <header>
          <h2>{room.name}</h2>
          <span className={isLive ? 'live' : 'waiting'}>{isLive ? 'Live' : 'Connecting…'}</span>
        </header>
        <Messages messages={messages ?? []} me={me} memberName={memberName} />
        <p className="typing" role="status">
          {typists.length > 0 && `${typists.join(' and ')} ${typists.length === 1 ? 'is' : 'are'} typing…`}
        </p>
        {problem !== undefined && <p role="alert">{problem}</p>}
        <form className="write" onSubmit={(event) => void send(event)}>
          <input
            name="body"
            aria-label="Message"
            placeholder={`Write to ${room.name}`}
            maxLength={2000}
            autoComplete="off"
            onChange={notifyTyping}
          />
          <button type="submit" className="primary">
            Send
          </button>
        </form>
      </main>
      <Members room={room} members={members} present={present} me={me} />
    </>
  );
}

function Messages({
  messages,
  me,
  memberName,
}: {
  readonly messages: readonly Message[];
  readonly me: string;
  readonly memberName: (user: string) => string;
}): JSX.Element {
  const end = useRef<HTMLLIElement>(null);
  const newest = messages.at(-1)?.id;
  useEffect(() => {
    end.current?.scrollIntoView({ block: 'end' });
  }, [newest]);

  return (
    <ol className="messages" aria-label="Messages">
      {messages.map(({ id, author_id: author, body, sent_at: sentAt }) => (
        <li key={id} className={author === me ? 'mine' : ''}>
          <span className="who">
            {memberName(author)}{' '}
            <time dateTime={sentAt}>
              {new Date(sentAt).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })}
            </time>
          </span>
          <span className="body">{body}</span>
          {author === me && (
            <button
              type="button"
              className="quiet"
              aria-label={`Delete “${body}”`}
              onClick={() => void supabase.from('messages').delete().eq('id', id).then()}
            >
              ×
            </button>
          )}
        </li>
      ))}
      <li ref={end} aria-hidden="true" className="end" />
    </ol>
  );
}

function Members({
  room,
  members,
  present,
  me,
}: {
  readonly room: Room;
  readonly members: readonly Member[];
  readonly present: ReadonlySet<string>;
  readonly me: string;
}): JSX.Element {
  const isOwner = members.some(({ user_id, role }) => user_id === me && role === 'owner');
  const [code, setCode] = useState<string>();
  const remove = (member: string): void => {
    setCode(undefined);
    void supabase.rpc('remove_member', { room: room.id, member }).then();
  };
  // The invitation may have changed since the rooms were loaded.
  const invite = async (): Promise<void> => {
    const { data } = await supabase.from('rooms').select('code').eq('id', room.id).single();
    setCode(data?.code);
  };

  return (
    <aside aria-label="Members">
      <h2>Members</h2>
      <ul>
        {members.map(({ user_id: user, name, role }) => (
          <li key={user}>
            <span
              className={present.has(user) ? 'dot here' : 'dot'}
              role="img"
              aria-label={present.has(user) ? 'here' : 'away'}
            />
            <span className="name">
              {name}
              {role === 'owner' && <small> owner</small>}
            </span>
            {isOwner && user !== me && (
              <button
                type="button"
                className="quiet"
                aria-label={`Remove ${name}`}
                onClick={() => remove(user)}
              >
                Remove
              </button>
            )}
            {!isOwner && user === me && (
              <button
                type="button"
                className="quiet"
                onClick={() =>
                  void supabase.from('members').delete().match({ room_id: room.id, user_id: me }).then()
                }
              >
                Leave
              </button>
            )}
          </li>
        ))}
      </ul>
      {code === undefined ? (
        <button type="button" onClick={() => void invite()}>
          Invite
        </button>
      ) : (
        <label>
          Send this link
          <input
            readOnly
            value={`${location.origin}${location.pathname}#join=${code}`}
            onFocus={(event) => event.currentTarget.select()}
          />
        </label>
      )}
    </aside>
  );
}
