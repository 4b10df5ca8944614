// Lists open channels, joins a channel as a chosen caller, and sends broadcasts.
import { PassThrough } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { RealtimeChannelInfo, RealtimeLive, RealtimeSent, WatchedFrame } from '../contract.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { badPath } from '../problem.ts';
import { baseUrlFor, readJson } from '../request.ts';
import { callerToken, isCallerName } from '../session/caller.ts';
import { readCookie, type DashboardSessions } from '../session/session.ts';
import type { DashboardRoutes } from './route.ts';

/** Proxies close connections that are silent for a minute. */
const HEARTBEAT_MS = 15_000;
/**
 * Interval of the session check. A page whose session has ended elsewhere is disconnected after at most this time.
 */
const CHECK_SESSION_MS = 60_000;
/** Interval of token renewal. A caller's token expires after five minutes. */
const RENEW_MS = 240_000;
/** A page that lags by more than this is disconnected. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024;
const MAX_CHANNELS = 500;

const caller = z.string().refine(isCallerName, 'must be service, anon or user:<uuid>');
const topic = z.string().min(1).max(240);
const Watched = z.object({
  caller,
  topic,
  private: z.enum(['true', 'false']).default('false'),
  table: z
    .union([z.string(), z.array(z.string())])
    .default([])
    .transform((given) => [given].flat())
    .pipe(z.array(z.string().regex(/^[^.]+\..+$/)).max(100)),
});
const Sent = z.strictObject({
  caller,
  topic,
  private: z.boolean(),
  event: z.string().min(1).max(255),
  payload: z.unknown(),
});

export const realtimeRoutes =
  (sessions: DashboardSessions): DashboardRoutes =>
  (context, app) => {
    const streams = new Set<PassThrough>();
    // Shutdown waits for responses in flight, and streams do not end by themselves.
    app.addHook('preClose', (done) => {
      for (const stream of streams) stream.end();
      done();
    });
    return [
      ['GET', '/realtime', 'read', () => describe(context)],
      [
        'GET',
        '/realtime/watch',
        'read',
        (request, reply) => watch(context, sessions, streams, request, reply),
        { deadline: 'none' },
      ],
      ['POST', '/realtime/send', 'write', (request) => send(context, request)],
    ];
  };

async function describe({ realtime, snapshot }: DashboardContext): Promise<RealtimeLive> {
  const { config } = snapshot();
  const settings = {
    enabled: config.realtime.enabled,
    privateOnly: config.realtime.privateOnly,
    hasPolicies: config.realtime.rls.length > 0,
    published: config.tables
      .filter((table) => table.realtime !== undefined)
      .map(({ schema, name }) => `${schema}.${name}`),
  };
  if (!settings.enabled) return { ...settings, instances: [], silent: 0, channels: [], more: 0 };
  const { instances, silent, present } = await realtime.report();
  const channels = new Map<string, RealtimeChannelInfo>();
  for (const { rooms } of instances) {
    for (const room of rooms) {
      const key = `${room.isPrivate ? 'private' : 'public'}:${room.topic}`;
      const presence = present.get(key);
      const known = channels.get(key);
      channels.set(key, {
        topic: room.topic,
        private: room.isPrivate,
        members: (known?.members ?? 0) + room.members,
        instances: (known?.instances ?? 0) + 1,
        delivered: (known?.delivered ?? 0) + room.delivered,
        tables: [...new Set([...(known?.tables ?? []), ...room.tables])].sort(),
        present: [...(presence?.keys ?? [])],
        presentCount: presence?.count ?? 0,
      });
    }
  }
  const all = [...channels.values()].sort(
    (a, b) => b.members - a.members || (a.topic < b.topic ? -1 : Number(a.topic > b.topic)),
  );
  const unlisted = instances.reduce((sum, { more }) => sum + more, 0);
  return {
    ...settings,
    instances: instances.map(({ rooms: _rooms, more: _more, ...figures }) => figures),
    silent,
    channels: all.slice(0, MAX_CHANNELS),
    more: unlisted + Math.max(0, all.length - MAX_CHANNELS),
  };
}

async function watch(
  context: DashboardContext,
  sessions: DashboardSessions,
  streams: Set<PassThrough>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const parsed = Watched.safeParse(request.query);
  if (!parsed.success) {
    throw badPath(
      'The query parameters are caller, topic, private=<true or false> and table=<schema>.<table>',
    );
  }
  const wanted = parsed.data;
  const token = async (): Promise<string | undefined> =>
    await callerToken(context, wanted.caller, baseUrlFor(request, context));
  const first = await token();
  const stream = new PassThrough();
  const write = (text: string): void => {
    if (stream.writableEnded) return;
    stream.write(text);
    if (stream.writableLength + stream.readableLength > MAX_BUFFERED_BYTES) stream.end();
  };
  write(': messages that a member receives\n\n');
  const { renew, leave } = context.realtime.watch({
    topic: wanted.topic,
    isPrivate: wanted.private === 'true',
    token: first,
    tables: wanted.table.map((name) => {
      const dot = name.indexOf('.');
      const table = name.slice(dot + 1);
      return { schema: name.slice(0, dot), table: table === '*' ? undefined : table };
    }),
    onMessage: (message) => {
      const frame: WatchedFrame = { ...message, time: context.now().toISOString() };
      write(`data: ${JSON.stringify(frame)}\n\n`);
    },
    onEnd: () => stream.end(),
  });
  const renewToken = async (): Promise<void> => {
    const next = await token();
    if (next !== undefined) renew(next);
  };
  const checkSession = async (): Promise<void> => {
    if (!(await sessions.find(readCookie(request.headers.cookie)))) stream.end();
  };
  // A short outage of the database does not end the stream.
  const logFailure = (error: unknown): void =>
    context.log.debug(
      { err: error },
      'the session or token of a page that watches a channel could not be checked',
    );
  const timers = [
    setInterval(() => write(':\n\n'), HEARTBEAT_MS),
    setInterval(() => void checkSession().catch(logFailure), CHECK_SESSION_MS),
    setInterval(() => void renewToken().catch(logFailure), RENEW_MS),
  ];
  streams.add(stream);
  stream.once('close', () => {
    for (const timer of timers) clearInterval(timer);
    leave();
    streams.delete(stream);
  });
  reply.raw.once('close', () => stream.destroy());
  return reply.header('x-accel-buffering', 'no').type('text/event-stream; charset=utf-8').send(stream);
}

async function send(context: DashboardContext, request: FastifyRequest): Promise<RealtimeSent> {
  const wanted = await readJson(request, Sent);
  const token = await callerToken(context, wanted.caller, baseUrlFor(request, context));
  const name = { topic: wanted.topic, isPrivate: wanted.private };
  const content = { json: JSON.stringify(wanted.payload ?? {}) };
  const heard = await context.realtime.send(token, name, { event: wanted.event, content });
  return { heard };
}
