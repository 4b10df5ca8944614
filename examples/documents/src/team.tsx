// Shows a team: its documents, the open document, its members.
import { useEffect, useState, type FormEvent, type JSX } from 'react';
import { supabase, fieldText, type Document, type Member, type Team } from './client.ts';
import { DocumentView } from './document.tsx';
import { Members } from './members.tsx';

export function TeamView({
  team,
  me,
  changes,
}: {
  readonly team: Team;
  readonly me: string;
  readonly changes: number;
}): JSX.Element {
  const [documents, setDocuments] = useState<readonly Document[]>([]);
  const [members, setMembers] = useState<readonly Member[]>([]);
  const [chosen, setChosen] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const open = documents.find(({ id }) => id === chosen) ?? documents[0];
  const role = members.find(({ user_id: user }) => user === me)?.role;
  // The page only hides actions; the policies decide.
  const canEdit = role === 'owner' || role === 'editor';

  useEffect(() => {
    let isOld = false;
    void Promise.all([
      supabase.from('documents').select().eq('team_id', team.id).order('id'),
      supabase.from('members').select().eq('team_id', team.id).order('name'),
    ]).then(([loadedDocuments, loadedMembers]) => {
      if (isOld) return;
      if (loadedDocuments.data) setDocuments(loadedDocuments.data);
      if (loadedMembers.data) setMembers(loadedMembers.data);
    });
    return () => {
      isOld = true;
    };
  }, [team.id, changes]);

  const create = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget;
    const title = fieldText(form, 'title');
    if (title === '') return;
    const { data, error } = await supabase
      .from('documents')
      .insert({ team_id: team.id, title })
      .select()
      .single();
    setProblem(error?.message);
    if (!data) return;
    form.reset();
    setChosen(data.id);
  };

  return (
    <>
      <main>
        <header>
          <h2>{team.name}</h2>
          <span className="soft">{role !== undefined && `You are ${role}.`}</span>
        </header>
        <ul className="documents" aria-label="Documents">
          {documents.map(({ id, title }) => (
            <li key={id}>
              <button
                type="button"
                aria-current={id === open?.id ? 'page' : undefined}
                onClick={() => setChosen(id)}
              >
                {title}
              </button>
            </li>
          ))}
        </ul>
        {canEdit && (
          <form className="line" onSubmit={(event) => void create(event)}>
            <input
              name="title"
              aria-label="Title of a new document"
              placeholder="New document"
              maxLength={200}
            />
            <button type="submit">Add</button>
          </form>
        )}
        {problem !== undefined && <p role="alert">{problem}</p>}
        {open && <DocumentView key={open.id} document={open} canEdit={canEdit} changes={changes} />}
      </main>
      <Members team={team} members={members} me={me} isOwner={role === 'owner'} />
    </>
  );
}
