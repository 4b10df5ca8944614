// A file before and after renames of almost all objects, and requests with the names of both.

export const BEFORE = `version: 1
project: { name: rollout }
tables:
  lists:
    rls: []
    fields: [{ name: id, type: integer, primary_key: true }, { name: name, type: text }]
  todos:
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: title, type: text }
      - { name: list_id, type: integer, foreign_key: { references: lists.id } }
views:
  done_todos: { query: select id from todos, grants: { service_role: [select] } }
rpc:
  find_todos:
    language: sql
    volatility: stable
    args: [{ name: query, type: text, required: true }]
    returns: { type: setof todos }
    body: select * from todos where title like query
`;

export const AFTER = `version: 1
project: { name: rollout }
tables:
  lists:
    rls: []
    fields: [{ name: id, type: integer, primary_key: true }, { name: label, type: text, renamed_from: name }]
  tasks:
    renamed_from: todos
    rls: []
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: headline, type: text, renamed_from: title }
      - { name: group_id, type: integer, renamed_from: list_id, foreign_key: { references: lists.id } }
views:
  done_tasks: { renamed_from: done_todos, query: select id from tasks, grants: { service_role: [select] } }
rpc:
  find_tasks:
    renamed_from: find_todos
    language: sql
    volatility: stable
    args: [{ name: words, type: text, required: true, renamed_from: query }]
    returns: { type: setof tasks }
    body: select * from tasks where headline like words
`;

export type Sent = { readonly status: number; readonly body: unknown };

export async function send(
  url: string,
  key: string,
  method: string,
  path: string,
  body?: unknown,
): Promise<Sent> {
  const answer = await fetch(`${url}/rest/v1/${path}`, {
    method,
    headers: {
      apikey: key,
      'content-type': 'application/json',
      prefer: 'return=representation',
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) };
}

/** A request of each kind, with the names of the file before the rename. */
export const OLD_REQUESTS: ReadonlyArray<readonly [string, string, unknown, unknown]> = [
  ['GET', 'todos?select=id,title&title=eq.First', undefined, [{ id: 1, title: 'First' }]],
  [
    'GET',
    'todos?select=title,lists(name)&order=title&id=eq.1',
    undefined,
    [{ title: 'First', lists: { name: 'A' } }],
  ],
  [
    'GET',
    'lists?select=name,todos!todos_list_id_fkey(title)',
    undefined,
    [{ name: 'A', todos: [{ title: 'First' }] }],
  ],
  ['GET', 'done_todos?id=eq.1', undefined, [{ id: 1 }]],
  ['GET', 'rpc/find_todos?query=First&select=title', undefined, [{ title: 'First' }]],
  ['POST', 'rpc/find_todos?select=title', { query: 'First' }, [{ title: 'First' }]],
  ['PATCH', 'todos?title=eq.First&select=title', { list_id: 1 }, [{ title: 'First' }]],
  ['POST', 'todos?select=title&on_conflict=id', { id: 7, title: 'New', list_id: null }, [{ title: 'New' }]],
  ['DELETE', 'todos?title=eq.New&select=title', undefined, [{ title: 'New' }]],
];

/** Requests with the names of the file after the rename. */
export const NEW_READS: ReadonlyArray<readonly [string, unknown]> = [
  ['tasks?select=id,headline&headline=eq.First', [{ id: 1, headline: 'First' }]],
  ['tasks?select=headline,lists(label)&id=eq.1', [{ headline: 'First', lists: { label: 'A' } }]],
  ['done_tasks?id=eq.1', [{ id: 1 }]],
  ['rpc/find_tasks?words=First&select=headline', [{ headline: 'First' }]],
];

/** Each worker uses different rows. */
let nextId = 1_000;

/** Sends requests with limited concurrency until `stop` is called. Resolves to the failed requests. */
export function load(
  urls: readonly string[],
  key: string,
): { sent: () => number; stop: () => Promise<unknown[]> } {
  const failed: unknown[] = [];
  let sent = 0;
  const over = new AbortController();
  const worker = async (url: string): Promise<void> => {
    const id = nextId++;
    const own = JSON.stringify(OLD_REQUESTS).replaceAll('7', String(id)).replaceAll('New', `New${id}`);
    const requests = JSON.parse(own) as typeof OLD_REQUESTS;
    while (!over.signal.aborted) {
      for (const [method, path, body, expected] of requests) {
        const answer = await send(url, key, method, path, body ?? undefined).catch((error: unknown) => error);
        sent += 1;
        const got = (answer as Sent).body;
        if (JSON.stringify(got) !== JSON.stringify(expected)) failed.push([url, method, path, answer]);
      }
    }
  };
  const workers = urls.flatMap((url) => [worker(url), worker(url), worker(url)]);
  return {
    sent: () => sent,
    async stop() {
      over.abort();
      await Promise.all(workers);
      return failed;
    },
  };
}
