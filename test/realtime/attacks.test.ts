// What somebody tries who holds the publishable key, or an account, and means harm: to hear what is not for him, and to
// stop the service for others.
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

/** Somebody who means no harm still gets changes and broadcasts. */
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

/** Ids of rows whose changes came, with what happened. */
function heard(socket: RawSocket): string[] {
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

const told = (socket: RawSocket): unknown[] => socket.of('system').map(({ payload }) => payload['message']);

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');

test('tokens that somebody else made, or nobody signed, or that have ended, open nothing', async () => {
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

test('a topic is a name and nothing else', async () => {
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

test('a filter on a hidden column tells nothing about it', async () => {
  const socket = await listening(
    eve.token,
    { table: 'notes', filter: 'secret=like.treasure%' },
    { table: 'notes', event: 'UPDATE', filter: 'secret=eq.treasure at sea' },
    { table: 'notes', filter: 'text=eq.end' },
  );
  await expect.poll(() => told(socket).length).toBe(3);
  expect(
    told(socket).filter((text) => String(text).includes('may not select the column secret')),
  ).toHaveLength(2);
  await admin.query(`insert into notes values (100, null, true, 'a', 'treasure at sea')`);
  await admin.query(`update notes set secret = 'treasure at sea', is_open = true where id = 100`);
  await admin.query(`insert into notes values (101, null, true, 'end', null)`);
  await expect.poll(() => heard(socket)).toContain('INSERT 101');
  expect(heard(socket)).toEqual(['INSERT 101']);
});

test('a filter on a deleted row tells nothing that its key does not', async () => {
  const [right, wrong] = await Promise.all([
    listening(eve.token, { table: 'notes', event: 'DELETE', filter: 'text=like.plan%' }),
    listening(eve.token, { table: 'notes', event: 'DELETE', filter: 'text=like.other%' }),
  ]);
  await admin.query(`insert into notes values (200, $1, false, 'plan b', null)`, [ann.id]);
  await admin.query(`delete from notes where id = 200`);
  await admin.query(`insert into notes values (201, $1, false, 'other', null)`, [ann.id]);
  await admin.query(`delete from notes where id = 201`);
  await expect.poll(() => heard(right)).toContain('DELETE 201');
  await expect.poll(() => heard(wrong)).toContain('DELETE 201');
  expect(heard(right)).toEqual(heard(wrong));
});

test('a new token with fewer rights takes the filter with it', async () => {
  const socket = await open();
  const asked = [{ event: '*', schema: 'public', table: 'notes', filter: 'secret=like.x%' }];
  const service = await world.token({ role: 'service_role' });
  const joinRef = await socket.join('demoted', { postgres_changes: asked }, service);
  await admin.query(`insert into notes values (300, null, true, 'a', 'x1')`);
  await expect.poll(() => heard(socket)).toEqual(['INSERT 300']);
  socket.push('realtime:demoted', 'access_token', { access_token: eve.token }, joinRef);
  await socket.settle();
  const other = await listening(eve.token, { table: 'notes', filter: 'id=eq.302' });
  await admin.query(`insert into notes values (301, null, true, 'a', 'x2')`);
  await admin.query(`insert into notes values (302, null, true, 'a', null)`);
  await expect.poll(() => heard(other)).toEqual(['INSERT 302']);
  await socket.settle();
  expect(heard(socket)).toEqual(['INSERT 300']);
});

test('tables without rights, system schemas and what does not tell stay silent', async () => {
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
  await expect.poll(() => told(socket).length).toBe(names.length);
  const all = await listening(eve.token, { schema: '*' });
  await admin.query(`insert into locked values (1)`);
  await admin.query(`insert into auth.users (id, email) values ($1, 'x@example.com')`, [ann.id]);
  await admin.query(`select realtime.send('{}', 'x', 'room:red', true)`);
  await admin.query(`insert into board values (10000, 'seen')`);
  await expect.poll(() => heard(all)).toEqual(['INSERT 10000']);
  await socket.settle();
  expect(heard(socket)).toEqual([]);
});

test('a filter that fails on a row harms nobody else', async () => {
  const bad = ['text=like.a\\', 'text=match.(', 'text=not.imatch.[', 'id=eq.99999999999999', 'nothing=eq.1'];
  const evil = await Promise.all(bad.map((filter) => listening(eve.token, { table: 'board', filter })));
  const good = await listening(eve.token, { table: 'board', filter: 'text=like.g%' });
  await admin.query(`insert into board values (20000, 'good'), (20001, 'abc')`);
  await expect.poll(() => heard(good)).toEqual(['INSERT 20000']);
  await admin.query(`insert into board values (20002, 'great')`);
  await expect.poll(() => heard(good)).toEqual(['INSERT 20000', 'INSERT 20002']);
  expect(good.of('phx_error')).toEqual([]);
  for (const socket of evil) expect(heard(socket)).toEqual([]);
});

test('an expression that takes for ever costs its own subscriber, and nobody else', async () => {
  const bomb = String.raw`text=match.^(.+)(.+)(.+)(.+)(.+)\5\4\3\2\1b?$`;
  const evil = await listening(eve.token, { table: 'board', filter: bomb });
  const good = await listening(eve.token, { table: 'board' });
  await admin.query(`insert into board values (30000, repeat('a', 3000))`);
  await expect.poll(() => heard(good), { timeout: 20_000 }).toContain('INSERT 30000');
  await admin.query(`insert into board values (30001, 'after')`);
  await expect.poll(() => heard(good), { timeout: 20_000 }).toContain('INSERT 30001');
  expect(good.of('phx_error')).toEqual([]);
  expect(heard(evil)).toEqual([]);
});

test('frames that make no sense end their socket at most', async () => {
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

test('notifications and messages of statements that make no sense harm nobody', async () => {
  const socket = await open();
  await socket.join('from-sql');
  for (const [at, message] of [
    '[{"kind":"presence"}]',
    '[{"kind":"state"}]',
    '[7]',
    '[{"kind":"broadcast","room":1}]',
  ].entries()) {
    await admin.query(`select pg_notify('svc_rt_0', $1)`, [`["nobody",${at + 1},${message}]`]);
  }
  await admin.query(`select realtime.send_binary('\\x00', repeat('e', 300), 'from-sql', false)`);
  await admin.query(`select realtime.send('{}', 'fine', 'from-sql', false)`);
  await socket.frame(({ event }) => event === 'broadcast');
  await expectService();
  expect(socket.of('phx_error')).toEqual([]);
});

test('compression is not offered, and a compressed frame ends its socket', async () => {
  const socket = await open();
  expect(socket.ws.extensions).toBe('');
  const raw = (socket.ws as unknown as { _socket: NodeJS.WritableStream })._socket;
  // FIN, RSV1 and text; masked with zeros.
  raw.write(Buffer.from([0xc1, 0x82, 0, 0, 0, 0, 0x61, 0x62]));
  await expect.poll(() => socket.closed?.code).toBe(1002);
});

test('an upgrade that never ends is ended', async () => {
  const { port } = new URL(world.url);
  const slow = connect(Number(port), '127.0.0.1');
  slow.on('error', () => {});
  slow.write('GET /realtime/v1/websocket HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\n');
  slow.resume();
  const dripping = setInterval(() => slow.write('x-a: 1\r\n'), 200);
  await once(slow, 'close');
  clearInterval(dripping);
});

test('a flood of joins ends its socket, and takes nothing from others for long', async () => {
  const flood = await open();
  for (let at = 0; at < 5_000; at++) {
    flood.push(`realtime:flood-${at}`, 'phx_join', { config: { private: true } });
  }
  await expect.poll(() => flood.closed?.code).toBe(1013);
  await expectService();
});

test('a join that asks for too much is refused', async () => {
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

test('a session that ends during a join takes the right with it', async () => {
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
  // Tells when the end of the session has been worked on.
  const witness = await open();
  const witnessed = await witness.join('room:red', { private: true }, token);
  // Another topic, so that its right is not known yet.
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
  // The policy waits for the lock: the right is being found out.
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

test('a flood of presence, of tokens or of what nobody asked for costs its own channel', async () => {
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
  const told = async (socket: RawSocket): Promise<unknown> =>
    (await socket.frame(({ event }) => event === 'system')).payload['message'];
  expect(await told(tracks)).toBe('Too many presence messages per second');
  expect(await told(renews)).toBe('Too many messages per second');
  await talks.settle();
  expect(talks.of('phx_close')).toEqual([]);
  await expectService();
});

test.each([
  ['pings', (socket: RawSocket) => socket.ws.ping('x'.repeat(125))],
  ['messages of no channel', (socket: RawSocket) => socket.push(`realtime:${'x'.repeat(200)}`, 'broadcast')],
])('whoever sends %s and reads no answers loses the connection', async (_what, send) => {
  const socket = await open();
  socket.ws.pause();
  for (let sent = 0; sent < 600_000 && !socket.closed; sent++) {
    send(socket);
    if (sent % 2_000 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  socket.ws.resume();
  // Nothing more can be said to it.
  await expect.poll(() => socket.closed?.code).toBe(1006);
  await expectService();
});

test('a message in very many pieces ends its socket', async () => {
  const socket = await open();
  for (let at = 0; at < 20_000; at++) socket.ws.send('x', { fin: false });
  await expect.poll(() => socket.closed?.code).toBe(1008);
});

test('a frame that never ends does not keep its socket', async () => {
  const socket = await open();
  const raw = (socket.ws as unknown as { _socket: NodeJS.WritableStream })._socket;
  // FIN and text, four million bytes, masked with zeros; two of them come.
  raw.write(Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 0x3d, 9, 0, 0, 0, 0, 0, 0x5b, 0x5b]));
  const quiet = await open();
  // A minute later, as far as the server can tell.
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
