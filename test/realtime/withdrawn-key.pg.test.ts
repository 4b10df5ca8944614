// A withdrawn signing key ends the channels of its tokens at every instance. An expired token ends its channels too.
// Sockets that were opened with such a token instead of a key also end.
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { Keyring } from '../../src/identity/keyring.ts';
import { SigningKeys } from '../../src/identity/signing-keys.ts';
import { signToken } from '../../src/identity/token.ts';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: withdrawn }
tables:
  notes:
    realtime: true
    rls: [{ operations: [select], to: authenticated, using: "true" }]
    fields: [{ name: id, type: integer, primary_key: true }]
realtime:
  rls: [{ operations: [select, insert], to: authenticated, check: "true" }]
`;
const USER = '00000000-0000-4000-8000-00000000000a';

let world: BackendWorld;
let peer: Backend;
let admin: pg.Client;
let signingKeys: SigningKeys;
const sockets: RawSocket[] = [];

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  peer = await startBackend({ ...world.options, port: 0 });
  admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
  const keyring = await Keyring.open(world.owner, { current: world.keys.secret, previous: [] }, 'refuse');
  signingKeys = new SigningKeys(world.owner, keyring.box('signing keys'));
  await signingKeys.load();
});

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

afterAll(async () => {
  await peer.stop();
  await admin.end();
  await world.close();
});

/** Signed with the active key. */
async function tokenNow(claims: Readonly<Record<string, unknown>> = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1000);
  return await signToken(
    { iat: now, exp: now + 600, aud: 'authenticated', role: 'authenticated', sub: USER, ...claims },
    signingKeys.signing,
  );
}

async function open(url: string, key = world.keys.publishable): Promise<RawSocket> {
  const socket = await RawSocket.open(url, key);
  sockets.push(socket);
  return socket;
}

const closes = async (socket: RawSocket, joined: string): Promise<unknown> =>
  await socket.frame(({ event, joinRef }) => event === 'phx_close' && joinRef === joined);

const joinReason = async (socket: RawSocket, topic: string, token?: string): Promise<unknown> => {
  const config = { private: true };
  const ref = socket.push(`realtime:${topic}`, 'phx_join', { config, access_token: token });
  return (await socket.reply(ref)).response['reason'];
};

test('closes the channels of its tokens at every instance, and no others', async () => {
  const [here, there] = await Promise.all([open(world.url), open(peer.url)]);
  const changes = [{ event: '*', schema: 'public', table: 'notes' }];
  const old = await tokenNow();
  const privates = [
    await here.join('mine', { private: true, postgres_changes: changes }, old),
    await there.join('mine', { private: true }, old),
  ];
  const isPublic = await there.join('public', {}, old);
  const byKey = await there.join('by key');
  const { kid } = signingKeys.signing;
  await signingKeys.rotate('now');
  const young = await tokenNow();
  const stays = await there.join('young', { private: true }, young);
  await signingKeys.revoke(kid);
  await closes(here, privates[0]!);
  await closes(there, privates[1]!);
  await closes(there, isPublic);
  expect(here.of('system').at(-1)?.payload).toMatchObject({ extension: 'system', status: 'error' });
  await admin.query('insert into notes values (1)');
  expect(await joinReason(there, 'mine', old)).toMatch(/^JwtSignatureError/);
  await Promise.all([here.settle(), there.settle()]);
  expect(here.of('postgres_changes')).toEqual([]);
  const closed = there.of('phx_close').map(({ joinRef }) => joinRef);
  expect(closed).not.toContain(byKey);
  expect(closed).not.toContain(stays);
  // A channel that received a token of the next key in time stays open too.
  expect(await joinReason(there, 'again', young)).toBeUndefined();
});

test('a token that expires closes its channels with the reason, and they receive nothing more', async () => {
  const [socket, witness] = await Promise.all([open(world.url), open(world.url)]);
  const changes = [{ event: 'INSERT', schema: 'public', table: 'notes' }];
  await witness.join('witness', { postgres_changes: changes }, await tokenNow());
  // Clocks may differ by half a minute.
  const short = await tokenNow({ exp: Math.floor(Date.now() / 1000) - 24 });
  const joined = await socket.join('short', { private: true, postgres_changes: changes }, short);
  await admin.query('insert into notes values (11)');
  await socket.frame(({ event }) => event === 'postgres_changes');
  await closes(socket, joined);
  const last = socket.frames.slice(-2);
  expect(last.map(({ event }) => event)).toEqual(['system', 'phx_close']);
  expect(last[0]?.payload).toMatchObject({
    extension: 'system',
    status: 'error',
    message: expect.stringMatching(/^Token has expired \d+ seconds ago$/) as string,
  });
  await admin.query('insert into notes values (12)');
  await expect.poll(() => witness.of('postgres_changes').length).toBe(2);
  await socket.settle();
  expect(socket.of('postgres_changes')).toHaveLength(1);
});

test('a channel that received a token of the next key in time stays open', async () => {
  const [socket, witness] = await Promise.all([open(peer.url), open(peer.url)]);
  const { kid } = signingKeys.signing;
  const old = await tokenNow();
  const joinRef = await socket.join('renewed', { private: true, broadcast: { self: true } }, old);
  const witnessed = await witness.join('witness', {}, old);
  await signingKeys.rotate('now');
  socket.push('realtime:renewed', 'access_token', { access_token: await tokenNow() }, joinRef);
  await socket.settle();
  await signingKeys.revoke(kid);
  await closes(witness, witnessed);
  socket.push('realtime:renewed', 'broadcast', { event: 'still', payload: {} }, joinRef);
  await socket.frame(({ event }) => event === 'broadcast');
});

test('a socket that was opened with one of its tokens opens nothing more', async () => {
  const token = await tokenNow();
  const socket = await open(world.url, token);
  const joinRef = await socket.join('by token', { private: true });
  await signingKeys.revoke(signingKeys.signing.kid);
  await closes(socket, joinRef);
  expect(await joinReason(socket, 'by token')).toMatch(/^JwtSignatureError/);
});

test('a socket that was opened with the token of a session has no user after the session has ended', async () => {
  const signedUp = await fetch(`${world.url}/auth/v1/signup`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
    body: JSON.stringify({ email: 'ann@example.com', password: 'ann-password-1' }),
  });
  const { access_token: token } = (await signedUp.json()) as { access_token: string };
  const socket = await open(peer.url, token);
  const joinRef = await socket.join('session', { private: true });
  await fetch(`${world.url}/auth/v1/logout?scope=global`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, authorization: `Bearer ${token}` },
  });
  await closes(socket, joinRef);
  expect(await joinReason(socket, 'session')).toMatch(/^InvalidJWTToken: Session has ended/);
});
