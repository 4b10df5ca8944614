// The how-to pages about tenants and invitations, with their blocks as printed.
import type { SupabaseClient } from '@supabase/supabase-js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sql } from '../../src/postgres/sql.ts';
import { HowToPage, type Call, type User } from '../support/documentation/how-to-page.ts';

const countRows = async (client: SupabaseClient, table: string): Promise<number | null> =>
  (await client.from(table).select('*', { count: 'exact', head: true })).count;

describe('docs/how-to/multi-tenant.md', () => {
  let page: HowToPage;
  let tenant: Call;
  const orgs: Record<string, string> = {};
  const people: Record<string, User> = {};
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/multi-tenant.md');
    tenant = await page.module('export async function createOrganisation');
    for (const org of ['red', 'blue']) {
      for (const role of ['owner', 'member', 'reader'])
        people[`${org} ${role}`] = await page.signUp(`${org}-${role}`);
      const owner = people[`${org} owner`]?.client;
      const id = await tenant<string>('createOrganisation', owner, org);
      orgs[org] = id;
      for (const role of ['member', 'reader'])
        await tenant('addMember', owner, id, people[`${org} ${role}`]?.id, role);
      await page
        .admin()
        .from('projects')
        .insert({ org_id: id, name: `project of ${org}` });
    }
  });
  afterAll(() => page?.close());

  test.each(['red', 'blue'])('members of %s see their organisation and nothing of the other', async (org) => {
    const otherOrg = org === 'red' ? 'blue' : 'red';
    for (const role of ['owner', 'member', 'reader']) {
      const client = people[`${org} ${role}`]?.client;
      expect(await tenant('listOrganisations', client)).toMatchObject([{ name: org }]);
      expect(await tenant('listProjects', client, orgs[org])).toMatchObject([{ name: `project of ${org}` }]);
      expect(await tenant('listProjects', client, orgs[otherOrg])).toEqual([]);
      expect(await countRows(client as SupabaseClient, 'memberships')).toBe(3);
    }
  });

  test.each([
    ['owner', true],
    ['member', true],
    ['reader', false],
  ])('a project can be written by an %s of its organisation only: %s', async (role, isAllowed) => {
    const client = people[`red ${role}`]?.client as SupabaseClient;
    const write = async (org: string): Promise<boolean> => {
      const made = await client.from('projects').insert({ org_id: orgs[org], name: `by ${role}` });
      const changed = await client.from('projects').update({ name: 'x' }).eq('org_id', orgs[org]).select();
      expect((changed.data ?? []).length > 0).toBe(made.error === null);
      const removed = await client.from('projects').delete().eq('name', 'nothing').select();
      expect(removed.data).toEqual([]);
      return made.error === null;
    };
    expect(await write('red')).toBe(isAllowed);
    expect(await write('blue')).toBe(false);
    await page
      .admin()
      .from('projects')
      .delete()
      .in('name', ['x', `by ${role}`]);
    await page.admin().from('projects').insert({ org_id: orgs['red'], name: 'project of red' });
  });

  test('only owners manage members, and not themselves', async () => {
    const owner = people['red owner'] as User;
    const member = people['red member'] as User;
    const promote = async (by: User, whom: User): Promise<unknown> =>
      (await by.client.from('memberships').update({ role: 'owner' }).eq('user_id', whom.id).select()).data;
    expect(await promote(member, member)).toEqual([]);
    expect(await promote(owner, people['blue member'] as User)).toEqual([]);
    expect((await owner.client.from('memberships').delete().eq('user_id', owner.id).select()).data).toEqual(
      [],
    );
    await expect(
      tenant('addMember', member.client, orgs['red'], people['blue member']?.id, 'member'),
    ).rejects.toMatchObject({ code: '42501' });
    expect(await promote(owner, member)).toHaveLength(1);
  });

  test('a caller without a membership sees nothing, and each block has run', async () => {
    expect(await page.sh('svc sql --as anon')).toMatch(/\b0\b/);
    expect(page.unused()).toEqual([]);
  });
});

describe('docs/how-to/invitations.md', () => {
  let page: HowToPage;
  let invitation: Call;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/invitations.md');
    invitation = await page.module('export async function invite');
  });
  afterAll(() => page?.close());

  test('a link works once, for its address, until it expires or is revoked', async () => {
    const [ann, bob] = [await page.signUp('ann'), await page.signUp('bob')];
    const made = await ann.client.from('rooms').insert({}).select('id').single();
    const room = String(made.data?.id);
    const invite = async (email: string): Promise<string> => invitation('invite', ann.client, room, email);
    const join = async (link: string): Promise<string> => invitation('join', bob.client, link);
    const link = await invite('Bob@example.com');
    expect(await join(link)).toBe(room);
    await expect(join(link)).rejects.toThrow(/not valid/);
    expect(await countRows(bob.client, 'guests')).toBe(1);
    await expect(join(await invite('eve@example.com'))).rejects.toThrow(/not valid/);
    const again = await invite('bob@example.com');
    expect(await join(again)).toBe(room);
    expect(await countRows(bob.client, 'guests')).toBe(1);
    const late = await invite('bob@example.com');
    await page.world.owner.query(sql`update invitations set expires_at = now()`);
    await expect(join(late)).rejects.toThrow(/not valid/);
    const revoked = await invite('bob@example.com');
    const list = await invitation<{ id: string }[]>('listInvitations', ann.client);
    expect(list).toHaveLength(3);
    expect(await invitation('listInvitations', bob.client)).toEqual([]);
    for (const { id } of list) await invitation('revoke', ann.client, id);
    await expect(join(revoked)).rejects.toThrow(/not valid/);
    await expect(invitation('invite', bob.client, room, 'x@example.com')).rejects.toThrow(/owner/);
    const stolen = await ann.client.from('invitations').select('token_hash');
    expect(stolen.error?.code).toBe('42501');
  });

  test('the check lists invitations, and each block has run', async () => {
    expect(await page.sh('svc sql ')).toMatch(/0 rows/);
    expect(page.unused()).toEqual([]);
  });
});
