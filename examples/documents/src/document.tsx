// A document: its text and its attachments.
import { useEffect, useState, type FormEvent, type JSX } from 'react';
import { supabase, fieldText, type Attachment, type Document } from './client.ts';

const LINK_LASTS_S = 60;

type Shown = { readonly document: Document; readonly canEdit: boolean };

export function DocumentView({
  document,
  canEdit,
  changes,
}: Shown & { readonly changes: number }): JSX.Element {
  return (
    <article>
      {canEdit ? (
        <Editor document={document} />
      ) : (
        <>
          <h3>{document.title}</h3>
          <p className="text">{document.body}</p>
        </>
      )}
      <Files document={document} canEdit={canEdit} changes={changes} />
    </article>
  );
}

function Editor({ document }: { readonly document: Document }): JSX.Element {
  // Version that was read when editing began. Undefined without changes: then the newest version is shown.
  const [begun, setBegun] = useState<Document>();
  const [problem, setProblem] = useState<string>();
  const read = begun ?? document;

  const save = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget;
    const { data, error } = await supabase
      .from('documents')
      .update({ title: fieldText(form, 'title'), body: fieldText(form, 'body'), version: read.version + 1 })
      .eq('id', read.id)
      .eq('version', read.version)
      .select();
    if (error) return setProblem(error.message);
    if (data.length === 0)
      return setProblem(
        'The document has changed since you opened it. Copy your text and discard it to see the new version.',
      );
    setProblem(undefined);
    setBegun(undefined);
  };

  return (
    // A new version has new default values.
    <form key={read.version} onSubmit={(event) => void save(event)} onChange={() => setBegun(read)}>
      <label>
        Title
        <input name="title" defaultValue={read.title} maxLength={200} required />
      </label>
      <label>
        Text
        <textarea name="body" rows={8} defaultValue={read.body} />
      </label>
      {problem !== undefined && <p role="alert">{problem}</p>}
      <div className="line">
        <button type="submit" className="primary">
          Save
        </button>
        {begun && (
          <button
            type="reset"
            onClick={() => {
              setBegun(undefined);
              setProblem(undefined);
            }}
          >
            Discard
          </button>
        )}
        <button
          type="button"
          className="quiet"
          onClick={() => void supabase.from('documents').delete().eq('id', document.id).then()}
        >
          Delete this document
        </button>
      </div>
    </form>
  );
}

function Files({ document, canEdit, changes }: Shown & { readonly changes: number }): JSX.Element {
  const [files, setFiles] = useState<readonly Attachment[]>([]);
  const [problem, setProblem] = useState<string>();

  useEffect(() => {
    let isOld = false;
    void supabase
      .from('attachments')
      .select()
      .eq('document_id', document.id)
      .order('id')
      .then(({ data }) => {
        if (data && !isOld) setFiles(data);
      });
    return () => {
      isOld = true;
    };
  }, [document.id, changes]);

  const attach = async (file: File | undefined): Promise<void> => {
    if (!file) return;
    // Store the name in the row: paths allow fewer characters, and two files may have the same name.
    const path = `${document.team_id}/${crypto.randomUUID()}`;
    const bucket = supabase.storage.from('attachments');
    const uploaded = await bucket.upload(path, file);
    if (uploaded.error) return setProblem(uploaded.error.message);
    const { error } = await supabase
      .from('attachments')
      .insert({ document_id: document.id, name: file.name, path });
    setProblem(error?.message);
    // Without its row the file could not be found, so delete it.
    if (error) await bucket.remove([path]);
  };

  const open = async ({ path, name }: Attachment): Promise<void> => {
    const { data, error } = await supabase.storage.from('attachments').createSignedUrl(path, LINK_LASTS_S);
    setProblem(error?.message);
    if (!data) return;
    const link = new URL(data.signedUrl);
    // Do not use the option `download` of createSignedUrl: it encodes a name like “häuser.txt” twice.
    link.searchParams.set('download', name);
    location.assign(link);
  };

  return (
    <section aria-label="Files">
      <h3>Files</h3>
      <ul>
        {files.map((file) => (
          <li key={file.id} className="line">
            <button type="button" className="link" onClick={() => void open(file)}>
              {file.name}
            </button>
            {canEdit && (
              <button
                type="button"
                className="quiet"
                aria-label={`Remove ${file.name}`}
                onClick={() => void supabase.from('attachments').delete().eq('id', file.id).then()}
              >
                Remove
              </button>
            )}
          </li>
        ))}
      </ul>
      {canEdit && (
        <label>
          Attach a file
          <input
            type="file"
            onChange={(event) => {
              const input = event.currentTarget;
              void attach(input.files?.[0]).then(() => (input.value = ''));
            }}
          />
        </label>
      )}
      {problem !== undefined && <p role="alert">{problem}</p>}
    </section>
  );
}
