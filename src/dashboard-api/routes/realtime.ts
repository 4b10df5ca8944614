// The channels that are open, joining one as somebody, and sending to it.
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
/** Who has signed out elsewhere sees no more after this time. */
const CHECK_SESSION_MS = 60_000;
/** A caller's token lives for five minutes. */
const RENEW_MS = 240_000;
/** A page this far behind is cut off. */
const MAX_BUFFERED_BYTES = 4 * 1024 * 1024;
const MOST_CHANNELS = 500;

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
    // A shutdown waits for responses in flight, and streams do not end by themselves.
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
      const here = present.get(key);
      const before = channels.get(key);
      channels.set(key, {
        topic: room.topic,
        private: room.isPrivate,
        members: (before?.members ?? 0) + room.members,
        instances: (before?.instances ?? 0) + 1,
        delivered: (before?.delivered ?? 0) + room.delivered,
        tables: [...new Set([...(before?.tables ?? []), ...room.tables])].sort(),
        present: [...(here?.keys ?? [])],
        presentCount: here?.count ?? 0,
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
    channels: all.slice(0, MOST_CHANNELS),
    more: unlisted + Math.max(0, all.length - MOST_CHANNELS),
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
  write(': what a member is sent\n\n');
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
  const renewed = async (): Promise<void> => {
    const next = await token();
    if (next !== undefined) renew(next);
  };
  const checked = async (): Promise<void> => {
    if (!(await sessions.find(readCookie(request.headers.cookie)))) stream.end();
  };
  // A database that is away for a moment ends nothing here.
  const ignore = (error: unknown): void =>
    context.log.debug({ err: error }, 'a page that watches a channel could not be looked at');
  const timers = [
    setInterval(() => write(':\n\n'), HEARTBEAT_MS),
    setInterval(() => void checked().catch(ignore), CHECK_SESSION_MS),
    setInterval(() => void renewed().catch(ignore), RENEW_MS),
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
