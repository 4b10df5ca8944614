// Examples to copy, for curl and supabase-js.
import { exampleValue, type DocColumn, type DocFunction, type DocTable } from './openapi.ts';

export type Language = 'curl' | 'js';
export type Snippet = { title: string; code: string };
/** Project values that every snippet contains. */
export type Project = { url: string; publishableKey: string };

export function setUp({ url, publishableKey }: Project, language: Language): Snippet {
  return language === 'js'
    ? {
        title: 'Once, when the app starts',
        code: [
          `import { createClient } from '@supabase/supabase-js';`,
          '',
          `const supabase = createClient('${url}', '${publishableKey}');`,
        ].join('\n'),
      }
    : {
        title: 'Once, in the shell',
        code: [
          `URL=${url}`,
          `KEY=${publishableKey}`,
          '# The access_token of a sign-in. Without one, omit the Authorization header.',
          'TOKEN=',
        ].join('\n'),
      };
}

export function tableSnippets(table: DocTable, language: Language): Snippet[] {
  const key = table.columns.find(({ name }) => name === 'id') ?? table.columns[0];
  const writable = table.columns.filter(({ readOnly }) => !readOnly);
  const needed = writable.filter(({ required }) => required);
  const row = exampleRow(needed.length > 0 ? needed : writable.slice(0, 1));
  const changed = writable.find((column) => column !== key && !column.description.startsWith('References'));
  const change = exampleRow(changed ? [changed] : []);
  const calls = language === 'js' ? jsTable(table, key) : curlTable(table, key);
  const all: Array<[DocTable['operations'][number], string, string]> = [
    ['get', 'List rows', calls.list()],
    ['get', 'Get one row', calls.one()],
    ['post', 'Insert', calls.insert(row)],
    ['patch', 'Update', calls.update(change)],
    ['delete', 'Delete', calls.delete()],
  ];
  return all
    .filter(([operation]) => table.operations.includes(operation))
    .map(([, title, code]) => ({ title, code }));
}

type SnippetCalls = {
  list(): string;
  one(): string;
  insert(row: object): string;
  update(row: object): string;
  delete(): string;
};

function jsTable(table: DocTable, key: DocColumn | undefined): SnippetCalls {
  const from = `await supabase.from(${quote(table.name)})`;
  const filter = key ? `.eq(${quote(key.name)}, ${toJs(exampleValue(key))})` : '';
  return {
    list: () =>
      `const { data, error } = ${from}\n  .select('*')${key ? `\n  .order(${quote(key.name)})` : ''}\n  .limit(20);`,
    one: () => `const { data, error } = ${from}\n  .select('*')\n  ${filter}\n  .maybeSingle();`,
    insert: (row) => `const { data, error } = ${from}\n  .insert(${toJs(row)})\n  .select();`,
    update: (row) => `const { data, error } = ${from}\n  .update(${toJs(row)})\n  ${filter}\n  .select();`,
    delete: () => `const { error } = ${from}\n  .delete()\n  ${filter};`,
  };
}

function curlTable(table: DocTable, key: DocColumn | undefined): SnippetCalls {
  const url = `"$URL/rest/v1/${encodeURIComponent(table.name)}`;
  const filter = key
    ? `${encodeURIComponent(key.name)}=eq.${encodeURIComponent(String(exampleValue(key)))}`
    : '';
  return {
    list: () =>
      curl('GET', `${url}?select=*${key ? `&order=${encodeURIComponent(key.name)}` : ''}&limit=20"`),
    one: () => curl('GET', `${url}?select=*&${filter}"`),
    insert: (row) => curl('POST', `${url}"`, row),
    update: (row) => curl('PATCH', `${url}?${filter}"`, row),
    delete: () => curl('DELETE', `${url}?${filter}"`),
  };
}

export function functionSnippets(fn: DocFunction, language: Language): Snippet[] {
  const needed = fn.args.filter(({ required }) => required);
  const args = exampleRow(needed);
  if (language === 'js') {
    const given = needed.length > 0 ? `, ${toJs(args)}` : '';
    return [
      { title: 'Call', code: `const { data, error } = await supabase.rpc(${quote(fn.name)}${given});` },
    ];
  }
  const url = `"$URL/rest/v1/rpc/${encodeURIComponent(fn.name)}`;
  const query = needed
    .map((arg) => `${encodeURIComponent(arg.name)}=${encodeURIComponent(String(exampleValue(arg)))}`)
    .join('&');
  return [
    { title: 'Call', code: curl('POST', `${url}"`, args) },
    ...(fn.isReadOnly
      ? [
          {
            title: 'Call with GET (read-only function)',
            code: curl('GET', `${url}${query && `?${query}`}"`),
          },
        ]
      : []),
  ];
}

export const SECTIONS: ReadonlyArray<{ name: string; title: string; about: string }> = [
  {
    name: 'auth',
    title: 'Auth',
    about: 'Sign up, sign in, sign out. Later calls send the session automatically.',
  },
  {
    name: 'storage',
    title: 'Storage',
    about: 'Files in buckets. The policies of a bucket decide who may access them.',
  },
  { name: 'functions', title: 'Code functions', about: 'HTTP functions of this project.' },
];

export function sectionSnippets(
  section: string,
  language: Language,
  names: { bucket: string; fn: string },
): Snippet[] {
  const js = language === 'js';
  switch (section) {
    case 'auth':
      return [
        {
          title: 'Sign up',
          code: js
            ? `const { data, error } = await supabase.auth.signUp({\n  email: 'ada@example.com',\n` +
              `  password: 'a long password',\n});`
            : curl(
                'POST',
                '"$URL/auth/v1/signup"',
                { email: 'ada@example.com', password: 'a long password' },
                false,
              ),
        },
        {
          title: 'Sign in',
          code: js
            ? `const { data, error } = await supabase.auth.signInWithPassword({\n  email: 'ada@example.com',\n` +
              `  password: 'a long password',\n});`
            : curl(
                'POST',
                '"$URL/auth/v1/token?grant_type=password"',
                { email: 'ada@example.com', password: 'a long password' },
                false,
              ),
        },
        {
          title: 'Get the current user',
          code: js
            ? `const { data, error } = await supabase.auth.getUser();`
            : curl('GET', '"$URL/auth/v1/user"'),
        },
        {
          title: 'Sign out',
          code: js
            ? `const { error } = await supabase.auth.signOut();`
            : curl('POST', '"$URL/auth/v1/logout"'),
        },
      ];
    case 'storage':
      return [
        {
          title: 'Upload',
          code: js
            ? `const { data, error } = await supabase.storage\n  .from(${quote(names.bucket)})\n` +
              `  .upload('folder/picture.png', file);`
            : `curl "$URL/storage/v1/object/${names.bucket}/folder/picture.png" \\\n` +
              `  -H "apikey: $KEY" -H "Authorization: Bearer $TOKEN" \\\n` +
              `  -H 'content-type: image/png' --data-binary @picture.png`,
        },
        {
          title: 'Download',
          code: js
            ? `const { data, error } = await supabase.storage\n  .from(${quote(names.bucket)})\n` +
              `  .download('folder/picture.png');`
            : curl('GET', `"$URL/storage/v1/object/authenticated/${names.bucket}/folder/picture.png"`),
        },
        {
          title: 'Create a link that expires after an hour',
          code: js
            ? `const { data, error } = await supabase.storage\n  .from(${quote(names.bucket)})\n` +
              `  .createSignedUrl('folder/picture.png', 3600);`
            : curl('POST', `"$URL/storage/v1/object/sign/${names.bucket}/folder/picture.png"`, {
                expiresIn: 3600,
              }),
        },
        {
          title: 'List a folder',
          code: js
            ? `const { data, error } = await supabase.storage\n  .from(${quote(names.bucket)})\n  .list('folder');`
            : curl('POST', `"$URL/storage/v1/object/list/${names.bucket}"`, { prefix: 'folder' }),
        },
      ];
    default:
      return [
        {
          title: 'Call',
          code: js
            ? `const { data, error } = await supabase.functions.invoke(${quote(names.fn)}, {\n` +
              `  body: { name: 'Ada' },\n});`
            : curl('POST', `"$URL/functions/v1/${names.fn}"`, { name: 'Ada' }),
        },
      ];
  }
}

function curl(method: string, url: string, body?: object, withToken = true): string {
  const change = method === 'PATCH' || method === 'DELETE' ? ` -X ${method}` : '';
  return [
    `curl${change} ${url}`,
    `  -H "apikey: $KEY"${withToken ? ' -H "Authorization: Bearer $TOKEN"' : ''}`,
    ...(body === undefined
      ? []
      : ["  -H 'content-type: application/json'", `  -d ${shellQuote(JSON.stringify(body))}`]),
  ].join(' \\\n');
}

function exampleRow(columns: readonly DocColumn[]): Record<string, unknown> {
  return Object.fromEntries(columns.map((column) => [column.name, exampleValue(column)]));
}

function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** Formats a JavaScript literal, with unquoted keys where possible. */
function toJs(value: unknown): string {
  if (typeof value === 'string') return quote(value);
  if (Array.isArray(value)) return `[${value.map(toJs).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return String(value);
  const entries = Object.entries(value).map(
    ([name, inner]) => `${/^[A-Za-z_$][\w$]*$/.test(name) ? name : quote(name)}: ${toJs(inner)}`,
  );
  return entries.length === 0 ? '{}' : `{ ${entries.join(', ')} }`;
}
