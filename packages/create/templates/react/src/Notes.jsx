import { useEffect, useState } from 'react';
import { client } from './client.js';

export function Notes() {
  const [notes, setNotes] = useState([]);
  const [error, setError] = useState(null);

  async function read() {
    const { data, error: failure } = await client.from('notes').select().order('created_at');
    setNotes(data ?? []);
    setError(failure?.message ?? null);
  }

  useEffect(() => {
    read();
  }, []);

  async function change(request) {
    const { error: failure } = await request;
    if (failure) setError(failure.message);
    else await read();
  }

  async function add(event) {
    event.preventDefault();
    const form = event.target;
    await change(client.from('notes').insert({ text: new FormData(form).get('text') }));
    form.reset();
  }

  return (
    <>
      <ul>
        {notes.map((note) => (
          <li key={note.id}>
            <label>
              <input
                type="checkbox"
                checked={note.done}
                onChange={() => change(client.from('notes').update({ done: !note.done }).eq('id', note.id))}
              />
              {note.text}
            </label>
            <button
              aria-label={`Delete ${note.text}`}
              onClick={() => change(client.from('notes').delete().eq('id', note.id))}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      {error && <p role="alert">{error}</p>}
      <form onSubmit={add}>
        <label>
          New note
          <input name="text" maxLength={500} required />
        </label>
        <footer>
          <button>Add</button>
        </footer>
      </form>
    </>
  );
}
