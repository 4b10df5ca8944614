// The team example with the client library, as an owner, an invited member, a user with a shared document and a
// stranger.
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { startSvc, type SvcProcess } from '../support/svc-process.ts';
import { copyExample, type TodoProject } from '../support/todo-project.ts';

const KEYS = {
  SVC_PUBLISHABLE_KEY: 'svc_publishable_aaaaaaaaaaaaaaaaaaaaaaaa',
  SVC_SECRET_KEY: 'svc_secret_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb',
};

type Person = { readonly client: SupabaseClient; readonly id: string };

let project: TodoProject;
let database: TestDatabase;
let svc: SvcProcess;
let ann: Person; // owns the organisation
let ben: Person; // is invited
let eve: Person; // belongs to no organisation; documents are shared with her
let sam: Person; // a stranger
let everyone: readonly Person[];
let organisation: string;

beforeAll(async () => {
  project = copyExample('team');
  database = await createDatabase();
  svc = await startSvc({
    command: 'serve',
    config: project.config,
    arguments: ['--migrate'],
    env: { ...KEYS, SVC_DATABASE_URL: database.url },
  });
  [ann, ben, eve, sam] = [await join('ann'), await join('ben'), await join('eve'), await join('sam')];
  everyone = [ann, ben, eve, sam];
  const made = await ann.client.rpc('create_organisation', { name: 'Analytical Engines' });
  expect(made.error).toBeNull();
  organisation = made.data;
  const invitation = await ann.client
    .from('invitations')
    .insert({ organisation_id: organisation, email: 'ben@example.com' })
    .select('token')
    .single();
  expect(invitation.error).toBeNull();
  const accepted = await ben.client.rpc('accept_invitation', { token: invitation.data?.token });
  expect(accepted).toMatchObject({ error: null, data: organisation });
});

afterAll(async () => {
  await svc?.stop();
  await database?.drop();
  project?.remove();
});

async function join(name: string): Promise<Person> {
  const client = createClient(svc.url, KEYS.SVC_PUBLISHABLE_KEY, {
    auth: { persistSession: false, autoRefreshToken: false },
  });
  const { data, error } = await client.auth.signUp({
    email: `${name}@example.com`,
    password: 'correct horse battery',
  });
  expect(error).toBeNull();
  return { client, id: data.user?.id ?? '' };
}

let serial = 0;
async function aDocument(more: Record<string, unknown> = {}): Promise<string> {
  const { data, error } = await ann.client
    .from('documents')
    .insert({ organisation_id: organisation, title: `Notes ${(serial += 1)}`, ...more })
    .select('id')
    .single();
  expect(error).toBeNull();
  return data?.id;
}

/** Returns for each user of `everyone` whether the user can read this document. */
async function listReaders(document: string): Promise<boolean[]> {
  const answers = await Promise.all(
    everyone.map(({ client }) => client.from('documents').select('id').eq('id', document)),
  );
  return answers.map(({ data, error }) => {
    expect(error).toBeNull();
    return data?.length === 1;
  });
}

describe('documents', () => {
  test('the owner reads a private document, and members read a team document', async () => {
    expect(await listReaders(await aDocument())).toEqual([true, false, false, false]);
    expect(await listReaders(await aDocument({ visibility: 'team' }))).toEqual([true, true, false, false]);
  });

  test('only members can write to an organisation, and only as themselves', async () => {
    for (const person of [eve, sam]) {
      const { error } = await person.client
        .from('documents')
        .insert({ organisation_id: organisation, title: 'Mine' });
      expect(error?.code).toBe('42501');
    }
    const forged = await ben.client
      .from('documents')
      .insert({ organisation_id: organisation, title: 'As Ann', owner_id: ann.id });
    expect(forged.error?.code).toBe('42501');
    const own = await ben.client.from('documents').insert({ organisation_id: organisation, title: 'Mine' });
    expect(own.error).toBeNull();
  });

  test('a member can read team documents, but cannot change or delete them', async () => {
    const document = await aDocument({ visibility: 'team', body: 'first' });
    const changed = await ben.client
      .from('documents')
      .update({ body: 'changed' })
      .eq('id', document)
      .select('id');
    expect(changed).toMatchObject({ error: null, data: [] });
    const deleted = await ben.client.from('documents').delete().eq('id', document).select('id');
    expect(deleted).toMatchObject({ error: null, data: [] });
    expect(await listReaders(document)).toEqual([true, true, false, false]);
  });

  test('deleting a document deletes its shares', async () => {
    const document = await aDocument();
    await ann.client.from('shares').insert({ document_id: document, user_id: eve.id });
    const { error } = await ann.client.from('documents').delete().eq('id', document);
    expect(error).toBeNull();
    const shares = await eve.client.from('shares').select('*').eq('document_id', document);
    expect(shares).toMatchObject({ error: null, data: [] });
  });
});

describe('sharing', () => {
  test('the owner inserts, reads, changes and removes a share', async () => {
    const document = await aDocument();
    const shared = await ann.client
      .from('shares')
      .insert({ document_id: document, user_id: eve.id })
      .select()
      .single();
    expect(shared).toMatchObject({ error: null, data: { can_edit: false } });
    expect(await listReaders(document)).toEqual([true, false, true, false]);

    const seen = await Promise.all(
      everyone.map(({ client }) => client.from('shares').select('user_id').eq('document_id', document)),
    );
    expect(seen.map(({ data }) => data?.length)).toEqual([1, 0, 1, 0]);

    const raised = await ann.client
      .from('shares')
      .update({ can_edit: true })
      .eq('document_id', document)
      .select();
    expect(raised).toMatchObject({ error: null, data: [{ user_id: eve.id, can_edit: true }] });

    const taken = await ann.client.from('shares').delete().eq('document_id', document).select();
    expect(taken.error).toBeNull();
    expect(taken.data).toHaveLength(1);
    expect(await listReaders(document)).toEqual([true, false, false, false]);
  });

  test('only the owner can share a document', async () => {
    const document = await aDocument({ visibility: 'team' });
    await ann.client.from('shares').insert({ document_id: document, user_id: eve.id });
    for (const person of [ben, eve, sam])
      for (const other of [ben, sam]) {
        const { error } = await person.client
          .from('shares')
          .insert({ document_id: document, user_id: other.id, can_edit: true });
        expect(error?.code).toBe('42501');
      }
  });

  test('a recipient of a share cannot raise it, and can remove it', async () => {
    const document = await aDocument();
    await ann.client.from('shares').insert({ document_id: document, user_id: eve.id });
    const raised = await eve.client
      .from('shares')
      .update({ can_edit: true })
      .eq('document_id', document)
      .select();
    expect(raised).toMatchObject({ error: null, data: [] });
    const stranger = await sam.client.from('shares').delete().eq('document_id', document).select();
    expect(stranger).toMatchObject({ error: null, data: [] });
    const given = await eve.client.from('shares').delete().eq('document_id', document).select();
    expect(given.error).toBeNull();
    expect(given.data).toHaveLength(1);
    expect(await listReaders(document)).toEqual([true, false, false, false]);
  });

  test('an editor changes the text and nothing else', async () => {
    const document = await aDocument();
    await ann.client.from('shares').insert({ document_id: document, user_id: eve.id, can_edit: true });
    const changed = await eve.client
      .from('documents')
      .update({ body: 'edited' })
      .eq('id', document)
      .select('body')
      .single();
    expect(changed).toMatchObject({ error: null, data: { body: 'edited' } });
    for (const theft of [{ owner_id: eve.id }, { owner_id: sam.id }, { visibility: 'team' }]) {
      const { error } = await eve.client.from('documents').update(theft).eq('id', document);
      expect(error?.code).toBe('42501');
    }
  });

  test('readers of a document can read its files, and only the owner can add files', async () => {
    const document = await aDocument({ visibility: 'team' });
    const path = `${document}/plan.txt`;
    const up = await ann.client.storage.from('files').upload(path, 'the plan');
    expect(up.error).toBeNull();
    const upload = await ben.client.storage.from('files').upload(`${document}/other.txt`, 'mine');
    expect(upload.error).not.toBeNull();
    const read = await Promise.all(
      everyone.map(async ({ client }) => (await client.storage.from('files').download(path)).data?.text()),
    );
    expect(read).toEqual(['the plan', 'the plan', undefined, undefined]);
  });
});

describe('members', () => {
  test('members see each other; strangers see neither members nor the organisation', async () => {
    const seen = await Promise.all(
      everyone.map(({ client }) =>
        client.from('organisations').select('name, members(role)').eq('id', organisation),
      ),
    );
    expect(seen.map(({ data, error }) => [error, data?.[0]?.members.length])).toEqual([
      [null, 2],
      [null, 2],
      [null, undefined],
      [null, undefined],
    ]);
  });

  test('joining, inviting and raising a role need a permission', async () => {
    for (const person of [ben, sam]) {
      const joined = await person.client
        .from('members')
        .insert({ organisation_id: organisation, user_id: person.id, role: 'owner' });
      expect(joined.error?.code).toBe('42501');
      const invited = await person.client
        .from('invitations')
        .insert({ organisation_id: organisation, email: 'x@example.com' });
      expect(invited.error?.code).toBe('42501');
    }
    const raised = await ben.client.from('members').update({ role: 'owner' }).eq('user_id', ben.id).select();
    expect(raised).toMatchObject({ error: null, data: [] });
  });

  test('an invitation works once, and an admin cannot invite admins', async () => {
    const raised = await ann.client.from('members').update({ role: 'admin' }).eq('user_id', ben.id).select();
    expect(raised.data).toHaveLength(1);
    const tooHigh = await ben.client
      .from('invitations')
      .insert({ organisation_id: organisation, email: 'sam@example.com', role: 'admin' });
    expect(tooHigh.error?.code).toBe('42501');
    const { data } = await ben.client
      .from('invitations')
      .insert({ organisation_id: organisation, email: 'sam@example.com' })
      .select('token')
      .single();
    expect((await sam.client.rpc('accept_invitation', { token: data?.token })).error).toBeNull();
    const again = await eve.client.rpc('accept_invitation', { token: data?.token });
    expect(again.error?.message).toBe('This invitation is not valid any more.');
    const document = await aDocument({ visibility: 'team' });
    expect(await listReaders(document)).toEqual([true, true, false, true]);

    // A removed member loses access at once.
    const gone = await ben.client.from('members').delete().eq('user_id', sam.id).select();
    expect(gone.data).toHaveLength(1);
    expect(await listReaders(document)).toEqual([true, true, false, false]);
    const owner = await ben.client.from('members').delete().eq('user_id', ann.id).select();
    expect(owner).toMatchObject({ error: null, data: [] });
  });
});
