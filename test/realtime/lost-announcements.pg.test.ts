// Two instances whose connections for announcements are cut, and users who are banned.
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: announced }
tables:
  posts:
    realtime: true
    rls:
      - { operations: [select], to: authenticated, using: "true" }
      - { operations: [select], to: anon, using: for_all }
    fields: [{ name: id, type: integer, primary_key: true }, { name: for_all, type: boolean }]
`;

let world: BackendWorld;
let peer: Backend;
let admin: pg.Client;
const sockets: RawSocket[] = [];

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  peer = await startBackend({ ...world.options, port: 0 });
  admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
  await admin.query(`create policy users on realtime.messages for select to authenticated using (true)`);
});

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

afterAll(async () => {
  await peer.stop();
  await admin.end();
  await world.close();
});

async function raw(url: string): Promise<RawSocket> {
  const socket = await RawSocket.open(url, world.keys.publishable);
  sockets.push(socket);
  return socket;
}

test('a loss between instances causes one error of the channel, and then all messages arrive again', async () => {
  const [here, there] = await Promise.all([raw(world.url), raw(peer.url)]);
  const joins = await Promise.all([here.join('cut'), there.join('cut')]);
  const { rowCount } = await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and query like 'listen "svc_rt_peers"%'`);
  expect(rowCount).toBe(2);
  for (const [at, socket] of [here, there].entries()) {
    await socket.frame(({ event, joinRef }) => event === 'phx_error' && joinRef === joins[at]);
  }
  const joinRef = await here.join('cut');
  await there.join('cut');
  for (let n = 0; n < 20; n++)
    here.push('realtime:cut', 'broadcast', { event: 'n', payload: { n } }, joinRef);
  await expect.poll(() => there.of('broadcast').length).toBe(20);
  for (const socket of [here, there]) expect(socket.of('phx_error')).toHaveLength(1);
});

test('a session that ends while the listener is disconnected is ended after it reconnects', async () => {
  const signedUp = await fetch(`${world.url}/auth/v1/signup`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
    body: JSON.stringify({ email: 'cut@example.com', password: 'cut-password-1' }),
  });
  const { access_token: token } = (await signedUp.json()) as { access_token: string };
  const there = await raw(peer.url);
  const joined = await there.join('cut off', { private: true }, token);
  // Not announced, as if the announcement had been lost with the connection.
  await admin.query(`delete from auth.sessions`);
  await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name like 'svc/%/listen'`);
  await there.frame(({ event, joinRef }) => event === 'phx_close' && joinRef === joined);
});

test('a ban ends the private channels of the user at every instance; public channels stay open', async () => {
  const signedUp = await fetch(`${world.url}/auth/v1/signup`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
    body: JSON.stringify({ email: 'ben@example.com', password: 'ben-password-1' }),
  });
  const { access_token: token, user } = (await signedUp.json()) as {
    access_token: string;
    user: { id: string };
  };
  const there = await raw(peer.url);
  const mine = await there.join('mine', { private: true }, token);
  const changes = [{ event: 'INSERT', schema: 'public', table: 'posts' }];
  const open = await there.join('open', { postgres_changes: changes }, token);
  const heard = (): unknown[] =>
    there
      .of('postgres_changes')
      .map(({ payload }) => (payload['data'] as { record: { id: number } }).record.id);
  await admin.query('insert into posts values (1, false)');
  await expect.poll(heard).toEqual([1]);
  const banned = await fetch(`${world.url}/auth/v1/admin/users/${user.id}`, {
    method: 'PUT',
    headers: { apikey: world.keys.secret, 'content-type': 'application/json' },
    body: JSON.stringify({ ban_duration: '24h' }),
  });
  expect(banned.status).toBe(200);
  await there.frame(({ event, joinRef }) => event === 'phx_close' && joinRef === mine);
  await there.settle();
  expect(there.frames.some(({ event, joinRef }) => event === 'phx_close' && joinRef === open)).toBe(false);
  await admin.query('insert into posts values (2, false), (3, true)');
  await expect.poll(heard).toEqual([1, 3]);
  const again = there.push('realtime:mine', 'phx_join', { config: { private: true }, access_token: token });
  expect((await there.reply(again)).response['reason']).toMatch(/^InvalidJWTToken: Session has ended/);
});
