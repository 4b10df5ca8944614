// Attacks with the publishable key or with an account: reading data without rights, and denial of service for other
// clients.
import { createHmac, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { startBackendWorld, type BackendWorld } from '../support/backend-world.ts';
import { RawSocket, userBroadcast } from './raw-socket.ts';

const YAML = `
version: 1
project: { name: attacked }
server: { timeouts: { header: 2s } }
tables:
  notes:
    realtime: { old: full }
    rls:
      - { operations: [select], to: authenticated, using: owner = auth.uid() or is_open }
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: owner, type: uuid }
      - { name: is_open, type: boolean, required: true, default: false }
      - { name: text, type: text }
      - { name: secret, type: text }
    grants:
      authenticated: [{ select: [id, owner, is_open, text] }]
  board:
    realtime: true
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: text, type: text }
  locked:
    realtime: true
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
    grants: { anon: [], authenticated: [] }
  members:
    rls:
      - { operations: [select], using: user_id = auth.uid() }
    fields:
      - { name: room, type: text, primary_key: true }
      - { name: user_id, type: uuid, primary_key: true }
`;

const POLICY = `create policy members_read on realtime.messages for select to authenticated
  using (exists (select from public.members m where m.user_id = auth.uid() and 'room:' || m.room = realtime.topic()))`;

let world: BackendWorld;
let admin: pg.Client;
const ann = { id: '00000000-0000-4000-8000-00000000000a', token: '' };
const eve = { id: '00000000-0000-4000-8000-00000000000e', token: '' };
const sockets: RawSocket[] = [];
let row = 0;

beforeAll(async () => {
  world = await startBackendWorld(YAML);
  admin = new pg.Client({ connectionString: world.databaseUrl });
  await admin.connect();
  await admin.query(POLICY);
  await admin.query(`insert into members values ('red', $1)`, [ann.id]);
  for (const user of [ann, eve]) user.token = await world.token({ role: 'authenticated', sub: user.id });
});

afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

afterAll(async () => {
  await admin.end();
  await world.close();
});

async function open(version: 1 | 2 = 2): Promise<RawSocket> {
  const socket = await RawSocket.open(world.url, world.keys.publishable, { version });
  sockets.push(socket);
  return socket;
}

async function refusal(socket: RawSocket, topic: string, payload: unknown): Promise<unknown> {
  const { status, response } = await socket.reply(socket.push(topic, 'phx_join', payload));
  return status === 'ok' ? 'joined' : response['reason'];
}

/** Checks that an honest client still receives changes and broadcasts. */
async function expectService(): Promise<void> {
  const socket = await open();
  const joinRef = await socket.join(`calm-${row}`, {
    broadcast: { self: true },
    postgres_changes: [{ event: 'INSERT', schema: 'public', table: 'board' }],
  });
  row += 1;
  await admin.query(`insert into board values ($1, 'calm')`, [row]);
  socket.push(`realtime:calm-${row - 1}`, 'broadcast', { event: 'x', payload: {} }, joinRef);
  await socket.frame(({ event }) => event === 'broadcast');
  await socket.frame(({ event }) => event === 'postgres_changes');
}

/** Ids of changed rows, with the event. */
function receivedChanges(socket: RawSocket): string[] {
  return socket.of('postgres_changes').map(({ payload }) => {
    const { type, record, old_record } = payload['data'] as Record<string, Record<string, unknown>> & {
      type: string;
    };
    return `${type} ${String(record?.['id'] ?? old_record?.['id'])}`;
  });
}

type Asked = { event?: string; schema?: string; table?: string; filter?: string };

async function listening(token: string, ...bindings: Asked[]): Promise<RawSocket> {
  const socket = await open();
  const asked = bindings.map((binding) => ({ event: '*', schema: 'public', ...binding }));
  await socket.join(`listens-${row++}`, { postgres_changes: asked }, token);
  return socket;
}

const systemMessages = (socket: RawSocket): unknown[] =>
  socket.of('system').map(({ payload }) => payload['message']);

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

test('foreign, unsigned and expired tokens are rejected', async () => {
  const seconds = Math.floor(Date.now() / 1000);
  const claims = {
    role: 'authenticated',
    sub: ann.id,
    iat: seconds,
    exp: seconds + 600,
    aud: 'authenticated',
  };
  const [head = '', body = '', signature = ''] = ann.token.split('.');
  const { kid } = JSON.parse(Buffer.from(head, 'base64url').toString()) as { kid: string };
  const hmac = (key: string): string => {
    const text = `${base64({ alg: 'HS256', typ: 'JWT', kid })}.${base64(claims)}`;
    return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`;
  };
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const foreignText = `${base64({ alg: 'ES256', typ: 'JWT', kid })}.${base64(claims)}`;
  const foreign = sign('sha256', Buffer.from(foreignText), { key: privateKey, dsaEncoding: 'ieee-p1363' });
  const jwks = await (await fetch(`${world.url}/auth/v1/.well-known/jwks.json`)).text();
  const forged = {
    'no algorithm': `${base64({ alg: 'none', typ: 'JWT' })}.${base64(claims)}.`,
    'no signature': `${head}.${body}.`,
    'another body': `${head}.${base64({ ...claims, sub: eve.id, role: 'service_role' })}.${signature}`,
    'a foreign key': `${foreignText}.${foreign.toString('base64url')}`,
    'the publishable key as the secret': hmac(world.keys.publishable),
    'the public keys as the secret': hmac(jwks),
    'an end that is past': await world.token({ role: 'authenticated', sub: ann.id, exp: seconds - 60 }),
    'a role of the database': await world.token({ role: 'svc_owner', sub: ann.id }),
    'no role': await world.token({ sub: ann.id }),
  };
  for (const [what, token] of Object.entries(forged)) {
    const socket = await open();
    const config = { private: true };
    expect(await refusal(socket, 'realtime:room:red', { config, access_token: token }), what).toMatch(
      /^(InvalidJWTToken|MalformedJWT|JwtSignatureError|Unauthorized)/,
    );
    const joinRef = await socket.join('room:red', {});
    socket.push('realtime:room:red', 'access_token', { access_token: token }, joinRef);
    await socket.frame(({ event }) => event === 'phx_close');
  }
});

test('a topic is only a name', async () => {
  const inside = await open();
  await inside.join('room:red', { private: true }, ann.token);
  const names = [
    'room:red',
    'private:room:red',
    'realtime:room:red',
    'room:red\u0000',
    ' room:red',
    'room:*',
  ];
  for (const name of [...names, '__proto__', 'constructor', 'a\ud800', '\u0000', "';--"]) {
    const socket = await open();
    await refusal(socket, `realtime:${name}`, { config: { private: true }, access_token: eve.token });
    expect(socket.of('phx_reply').at(-1)?.payload['status'], name).toBe('error');
    const joined = await refusal(socket, `realtime:${name}`, { config: { presence: { key: '__proto__' } } });
    if (joined !== 'joined') continue;
    const joinRef = socket.of('phx_reply').at(-1)!.joinRef;
    socket.push(`realtime:${name}`, 'presence', { event: 'track', payload: { a: 1 } }, joinRef);
    socket.push(`realtime:${name}`, 'broadcast', { event: '__proto__', payload: {} }, joinRef);
    await socket.settle();
  }
  await inside.settle();
  expect(inside.of('broadcast')).toEqual([]);
  await expectService();
});

test('a filter on a hidden column reveals nothing about it', async () => {
  const socket = await listening(
    eve.token,
    { table: 'notes', filter: 'secret=like.treasure%' },
    { table: 'notes', event: 'UPDATE', filter: 'secret=eq.treasure at sea' },
    { table: 'notes', filter: 'text=eq.end' },
  );
  await expect.poll(() => systemMessages(socket).length).toBe(3);
  expect(
    systemMessages(socket).filter((text) => String(text).includes('may not select the column secret')),
  ).toHaveLength(2);
  await admin.query(`insert into notes values (100, null, true, 'a', 'treasure at sea')`);
  await admin.query(`update notes set secret = 'treasure at sea', is_open = true where id = 100`);
  await admin.query(`insert into notes values (101, null, true, 'end', null)`);
  await expect.poll(() => receivedChanges(socket)).toContain('INSERT 101');
  expect(receivedChanges(socket)).toEqual(['INSERT 101']);
});

test('a filter on a deleted row reveals only its key', async () => {
  const [right, wrong] = await Promise.all([
    listening(eve.token, { table: 'notes', event: 'DELETE', filter: 'text=like.plan%' }),
    listening(eve.token, { table: 'notes', event: 'DELETE', filter: 'text=like.other%' }),
  ]);
  await admin.query(`insert into notes values (200, $1, false, 'plan b', null)`, [ann.id]);
  await admin.query(`delete from notes where id = 200`);
  await admin.query(`insert into notes values (201, $1, false, 'other', null)`, [ann.id]);
  await admin.query(`delete from notes where id = 201`);
  await expect.poll(() => receivedChanges(right)).toContain('DELETE 201');
  await expect.poll(() => receivedChanges(wrong)).toContain('DELETE 201');
  expect(receivedChanges(right)).toEqual(receivedChanges(wrong));
});

test('a new token with fewer rights ends the filter', async () => {
  const socket = await open();
  const asked = [{ event: '*', schema: 'public', table: 'notes', filter: 'secret=like.x%' }];
  const service = await world.token({ role: 'service_role' });
  const joinRef = await socket.join('demoted', { postgres_changes: asked }, service);
  await admin.query(`insert into notes values (300, null, true, 'a', 'x1')`);
  await expect.poll(() => receivedChanges(socket)).toEqual(['INSERT 300']);
  socket.push('realtime:demoted', 'access_token', { access_token: eve.token }, joinRef);
  await socket.settle();
  const control = await listening(eve.token, { table: 'notes', filter: 'id=eq.302' });
  await admin.query(`insert into notes values (301, null, true, 'a', 'x2')`);
  await admin.query(`insert into notes values (302, null, true, 'a', null)`);
  await expect.poll(() => receivedChanges(control)).toEqual(['INSERT 302']);
  await socket.settle();
  expect(receivedChanges(socket)).toEqual(['INSERT 300']);
});

test('tables without rights, system schemas and unpublished tables stay silent', async () => {
  const names: Asked[] = [
    { table: 'locked' },
    { schema: 'auth' },
    { schema: 'auth', table: 'users' },
    { schema: 'realtime', table: 'messages' },
    { schema: 'storage' },
    { schema: 'pg_catalog', table: 'pg_authid' },
    { table: 'members' },
    { table: 'board"; drop table board; --' },
  ];
  const socket = await listening(eve.token, ...names);
  await expect.poll(() => systemMessages(socket).length).toBe(names.length);
  const all = await listening(eve.token, { schema: '*' });
  await admin.query(`insert into locked values (1)`);
  await admin.query(`insert into auth.users (id, email) values ($1, 'x@example.com')`, [ann.id]);
  await admin.query(`select realtime.send('{}', 'x', 'room:red', true)`);
  await admin.query(`insert into board values (10000, 'seen')`);
  await expect.poll(() => receivedChanges(all)).toEqual(['INSERT 10000']);
  await socket.settle();
  expect(receivedChanges(socket)).toEqual([]);
});

test('a filter that fails on a row does not affect other subscribers', async () => {
  const bad = ['text=like.a\\', 'text=match.(', 'text=not.imatch.[', 'id=eq.99999999999999', 'nothing=eq.1'];
  const evil = await Promise.all(bad.map((filter) => listening(eve.token, { table: 'board', filter })));
  const good = await listening(eve.token, { table: 'board', filter: 'text=like.g%' });
  await admin.query(`insert into board values (20000, 'good'), (20001, 'abc')`);
  await expect.poll(() => receivedChanges(good)).toEqual(['INSERT 20000']);
  await admin.query(`insert into board values (20002, 'great')`);
  await expect.poll(() => receivedChanges(good)).toEqual(['INSERT 20000', 'INSERT 20002']);
  expect(good.of('phx_error')).toEqual([]);
  for (const socket of evil) expect(receivedChanges(socket)).toEqual([]);
});

test('an endless expression costs only its own subscriber', async () => {
  const bomb = String.raw`text=match.^(.+)(.+)(.+)(.+)(.+)\5\4\3\2\1b?$`;
  const evil = await listening(eve.token, { table: 'board', filter: bomb });
  const good = await listening(eve.token, { table: 'board' });
  await admin.query(`insert into board values (30000, repeat('a', 3000))`);
  await expect.poll(() => receivedChanges(good)).toContain('INSERT 30000');
  await admin.query(`insert into board values (30001, 'after')`);
  await expect.poll(() => receivedChanges(good)).toContain('INSERT 30001');
  expect(good.of('phx_error')).toEqual([]);
  expect(receivedChanges(evil)).toEqual([]);
});

test('slow filters of one caller do not drop changes of another caller', async () => {
  // Fast on the values that a join checks, and without an end on the rows below.
  const bombs = Array.from({ length: 12 }, (_, at) => ({
    table: 'board',
    filter: String.raw`text=match.^slow(.+)(.+)(.+)(.+)(.+)\5\4\3\2\1${at}?$`,
  }));
  const good = await listening(ann.token, { table: 'board', filter: 'text=like.slow%' });
  for (let round = 0; round < 3; round++) {
    const evil = await listening(eve.token, ...bombs);
    await admin.query(`insert into board values ($1, 'slow' || repeat('a', 1500) || 'c')`, [31000 + round]);
    await expect.poll(() => receivedChanges(good).length).toBe(round + 1);
    // Either its filters are disabled, or the time of its caller is used up.
    await expect.poll(() => systemMessages(evil).length + evil.of('phx_error').length).toBeGreaterThan(0);
    expect(receivedChanges(evil)).toEqual([]);
  }
  expect(receivedChanges(good)).toEqual(['INSERT 31000', 'INSERT 31001', 'INSERT 31002']);
  expect(good.of('phx_error')).toEqual([]);
  const again = await listening(eve.token, ...bombs.slice(0, 1));
  await expect
    .poll(() => systemMessages(again))
    .toEqual([expect.stringContaining('took too long to evaluate')]);
});

test('a pattern is refused when a client joins with it, before any row', async () => {
  const bad = [
    String.raw`text=like."ab\\"`,
    'text=match.(',
    String.raw`text=match.^(.+)(.+)(.+)(.+)(.+)\5\4\3\2\1b?$`,
    'id=gt.x',
  ];
  for (const filter of bad) {
    const socket = await listening(eve.token, { table: 'board', filter });
    await expect.poll(() => systemMessages(socket).length, { message: filter }).toBe(1);
    expect(socket.of('system')[0]?.payload['status'], filter).toBe('error');
  }
});

test('invalid frames end at most their socket', async () => {
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
  const frames: Array<string | Buffer> = [
    `[null,"1","realtime:odd","broadcast",{"event":"x","payload":${deep}}]`,
    `[null,"1","realtime:odd","presence",{"event":"track","payload":{"a":${deep}}}]`,
    `[null,"1","realtime:odd2","phx_join",{"config":{"postgres_changes":[{"event":"*","a":${deep}}]}}]`,
    deep,
    '[null,null,null,null,null]',
    `["1","1","realtime:odd","broadcast",{"event":{},"payload":[]}]`,
    `["1","1","realtime:odd","presence",{"event":"track","payload":[1]}]`,
    `["1","1","realtime:odd","access_token",{"access_token":{"a":1}}]`,
    `[null,"1","phoenix","phx_join",{}]`,
    `[null,"1","realtime:odd","phx_join",null]`,
    `[null,"1","realtime:odd","phx_join",{"config":{"broadcast":7,"presence":[],"postgres_changes":{"a":1}}}]`,
    userBroadcast('realtime:odd', 'x'.repeat(255), Buffer.from(deep)),
    userBroadcast('realtime:odd', '', Buffer.alloc(0), { encoding: 0 }),
  ];
  for (let at = 0; at < 200; at++) {
    const bytes = randomBytes(1 + (at % 40));
    if (at % 2 === 0) bytes[0] = 3;
    frames.push(bytes);
  }
  for (const frame of frames) {
    const socket = await open();
    await socket.join('odd');
    socket.ws.send(frame);
    socket.pushAs('phoenix', 'heartbeat', {}, null, 'last');
    await expect
      .poll(() => socket.closed ?? socket.frames.find(({ ref }) => ref === 'last'), { interval: 5 })
      .toBeDefined();
    socket.close();
  }
  await expectService();
});

test('invalid notifications and messages of statements do no harm', async () => {
  const socket = await open();
  await socket.join('from-sql');
  for (const [at, message] of [
    '[{"kind":"presence"}]',
    '[{"kind":"state"}]',
    '[7]',
    '[{"kind":"broadcast","room":1}]',
  ].entries()) {
    await admin.query(`select pg_notify('svc_rt_0', $1)`, [`["unknown",${at + 1},${message}]`]);
  }
  await admin.query(`select realtime.send_binary('\\x00', repeat('e', 300), 'from-sql', false)`);
  await admin.query(`select realtime.send('{}', 'fine', 'from-sql', false)`);
  await socket.frame(({ event }) => event === 'broadcast');
  await expectService();
  expect(socket.of('phx_error')).toEqual([]);
});

test('a statement cannot publish on the bus of the instances', async () => {
  const inside = await open();
  await inside.join('room:red', { private: true }, ann.token);
  const broadcast = {
    kind: 'broadcast',
    room: { topic: 'room:red', isPrivate: true },
    broadcast: { event: 'forged', content: { json: '{}' } },
  };
  for (let channel = 0; channel < 16; channel++) {
    const text = JSON.stringify(['evil', 1, [broadcast]]);
    await admin.query('select pg_notify($1, $2)', [`svc_rt_${channel}`, text]);
    // A number with a gap, which would mean that a message was lost.
    await admin.query('select pg_notify($1, $2)', [`svc_rt_${channel}`, JSON.stringify(['evil', 9, []])]);
  }
  await admin.query(`select realtime.send('{}', 'real', 'room:red', true)`);
  await expect.poll(() => inside.of('broadcast').map(({ payload }) => payload['event'])).toEqual(['real']);
  await expectService();
  expect(inside.of('broadcast').length).toBe(1);
  expect(inside.of('phx_error')).toEqual([]);
});

test('compression is not offered, and a compressed frame closes its socket', async () => {
  const socket = await open();
  expect(socket.ws.extensions).toBe('');
  const raw = (socket.ws as unknown as { _socket: NodeJS.WritableStream })._socket;
  // FIN, RSV1 and text; masked with zeros.
  raw.write(Buffer.from([0xc1, 0x82, 0, 0, 0, 0, 0x61, 0x62]));
  await expect.poll(() => socket.closed?.code).toBe(1002);
});

test('an incomplete upgrade is closed', async () => {
  const { port } = new URL(world.url);
  const slow = connect(Number(port), '127.0.0.1');
  slow.on('error', () => {});
  slow.write('GET /realtime/v1/websocket HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\n');
  slow.resume();
  const dripping = setInterval(() => slow.write('x-a: 1\r\n'), 200);
  await once(slow, 'close');
  clearInterval(dripping);
});

test('a flood of joins closes its socket, and delays other clients only briefly', async () => {
  const flood = await open();
  for (let at = 0; at < 5_000; at++) {
    flood.push(`realtime:flood-${at}`, 'phx_join', { config: { private: true } });
  }
  await expect.poll(() => flood.closed?.code).toBe(1013);
  await expectService();
});

test('repeated joins of one channel close its socket, and reject no join of another client', async () => {
  const floods = await Promise.all(Array.from({ length: 4 }, async () => await open()));
  const joins: Array<Promise<unknown>> = [];
  for (let at = 0; at < 2_000; at++) {
    for (const flood of floods) flood.push('realtime:same', 'phx_join', { config: {} });
    if (at % 100 !== 0) continue;
    const socket = await open();
    joins.push(refusal(socket, `realtime:honest-${at}`, { access_token: ann.token }));
  }
  for (const flood of floods) await expect.poll(() => flood.closed?.code).toBe(1013);
  expect(new Set(await Promise.all(joins))).toEqual(new Set(['joined']));
  await expectService();
});

test('clients that connect together are admitted one after the other', async () => {
  const all = await Promise.all(Array.from({ length: 150 }, async () => await open()));
  const answers = all.map(async (socket) => await refusal(socket, 'realtime:together', { config: {} }));
  expect(new Set(await Promise.all(answers))).toEqual(new Set(['joined']));
});

test('a join with too many bindings is rejected', async () => {
  const socket = await open();
  const many = Array.from({ length: 101 }, (_, at) => ({
    event: '*',
    schema: 'public',
    filter: `id=eq.${at}`,
  }));
  expect(await refusal(socket, 'realtime:many', { config: { postgres_changes: many } })).toMatch(
    /^TooManyBindings/,
  );
  const key = 'k'.repeat(70_000);
  expect(await refusal(socket, 'realtime:large', { config: { presence: { key } } })).toMatch(/^JoinTooLarge/);
  await expectService();
});

test('a session that ends during a join removes the right', async () => {
  const email = 'late@example.com';
  const signedUp = await fetch(`${world.url}/auth/v1/signup`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, 'content-type': 'application/json' },
    body: JSON.stringify({ email, password: 'late-password-1' }),
  });
  const { access_token: token, user } = (await signedUp.json()) as {
    access_token: string;
    user: { id: string };
  };
  await admin.query(`insert into members values ('red', $1)`, [user.id]);
  // Notifies when the end of the session has been processed.
  const witness = await open();
  const witnessed = await witness.join('room:red', { private: true }, token);
  // Another topic, whose right is not cached yet.
  await admin.query(`insert into members values ('late', $1)`, [user.id]);
  const blocker = new pg.Client({ connectionString: world.databaseUrl });
  await blocker.connect();
  await blocker.query('begin');
  await blocker.query('lock table members in access exclusive mode');
  const socket = await open();
  const ref = socket.push('realtime:room:late', 'phx_join', {
    config: { private: true },
    access_token: token,
  });
  // The policy waits for the lock, so the check of the right is in progress.
  const waits = async (): Promise<unknown> =>
    (await admin.query(`select from pg_locks where not granted and relation = 'members'::regclass`)).rowCount;
  await expect.poll(waits).toBe(1);
  await fetch(`${world.url}/auth/v1/logout?scope=global`, {
    method: 'POST',
    headers: { apikey: world.keys.publishable, authorization: `Bearer ${token}` },
  });
  await witness.frame(({ event, joinRef }) => event === 'phx_close' && joinRef === witnessed);
  await blocker.query('rollback');
  await blocker.end();
  const { status } = await socket.reply(ref);
  expect(status).toBe('error');
});

test('a token that ends during a join opens nothing', async () => {
  await admin.query(`insert into members values ('ending', $1)`, [eve.id]);
  const seconds = Math.floor(Date.now() / 1000);
  // Clocks may differ by half a minute.
  const token = await world.token({ role: 'authenticated', sub: eve.id, exp: seconds - 27 });
  const blocker = new pg.Client({ connectionString: world.databaseUrl });
  await blocker.connect();
  await blocker.query('begin; lock table members in access exclusive mode');
  const socket = await open();
  const ref = socket.push('realtime:room:ending', 'phx_join', {
    config: { private: true },
    access_token: token,
  });
  await expect.poll(() => Date.now()).toBeGreaterThan((seconds + 4) * 1000);
  expect(socket.of('phx_reply')).toEqual([]);
  await blocker.query('rollback');
  await blocker.end();
  const { status, response } = await socket.reply(ref);
  expect([status, response['reason']]).toEqual([
    'error',
    expect.stringMatching(/^InvalidJWTToken: Token has expired/),
  ]);
});

test('a flood of presence, tokens or unknown events costs only its own channel', async () => {
  const [tracks, renews, talks] = [await open(), await open(), await open()];
  const tracked = await tracks.join('many-tracks');
  const renewed = await renews.join('room:red', { private: true }, ann.token);
  const talked = await talks.join('many-words');
  const second = await world.token({ role: 'authenticated', sub: ann.id, n: 2 });
  for (let at = 0; at < 2_000; at++) {
    tracks.push('realtime:many-tracks', 'presence', { event: 'track', payload: { at } }, tracked);
    const token = at % 2 === 0 ? second : ann.token;
    renews.push('realtime:room:red', 'access_token', { access_token: token }, renewed);
    talks.push('realtime:many-words', 'postgres_changes', { at }, talked);
  }
  const systemMessages = async (socket: RawSocket): Promise<unknown> =>
    (await socket.frame(({ event }) => event === 'system')).payload['message'];
  expect(await systemMessages(tracks)).toBe('Too many presence messages per second');
  expect(await systemMessages(renews)).toBe('Too many messages per second');
  await talks.settle();
  expect(talks.of('phx_close')).toEqual([]);
  await expectService();
});

test.each([
  ['pings', (socket: RawSocket) => socket.ws.ping('x'.repeat(125))],
  ['messages of no channel', (socket: RawSocket) => socket.push(`realtime:${'x'.repeat(200)}`, 'broadcast')],
])('a client that sends %s and reads no replies is disconnected', async (_what, send) => {
  const socket = await open();
  socket.ws.pause();
  for (let sent = 0; sent < 600_000 && !socket.closed; sent++) {
    send(socket);
    if (sent % 2_000 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  socket.ws.resume();
  // No more messages can be sent to it.
  await expect.poll(() => socket.closed?.code).toBe(1006);
  await expectService();
});

test('a message in very many fragments closes its socket', async () => {
  const socket = await open();
  for (let at = 0; at < 20_000; at++) socket.ws.send('x', { fin: false });
  await expect.poll(() => socket.closed?.code).toBe(1008);
});

test('an incomplete frame does not keep its socket open', async () => {
  const socket = await open();
  const raw = (socket.ws as unknown as { _socket: NodeJS.WritableStream })._socket;
  // FIN and text, four million bytes, masked with zeros; only two of them are sent.
  raw.write(Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 0x3d, 9, 0, 0, 0, 0, 0, 0x5b, 0x5b]));
  const quiet = await open();
  // Advances the server's clock by a minute.
  const now = performance.now.bind(performance);
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + 61_000);
  try {
    await quiet.settle();
    await expect.poll(() => socket.closed?.code).toBe(1000);
  } finally {
    clock.mockRestore();
  }
  await quiet.settle();
  expect(quiet.closed).toBeUndefined();
});
