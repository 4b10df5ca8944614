// Returns the latest log lines of this instance, as a list and as a stream.
import { PassThrough } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { RecentLine } from '../../log/recent-lines.ts';
import type { LogLine, LogPage } from '../contract.ts';
import type { DashboardRoutes } from './route.ts';
import { badPath } from '../problem.ts';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'] as const;
/** Proxies close connections that are silent for a minute. */
const HEARTBEAT_MS = 15_000;
/** Maximum duration of a stream. The browser then reconnects, which checks its session again. */
const LIFETIME_MS = 60_000;
const RECONNECT_MS = 500;
/** A reader that lags by more than this is disconnected. The browser reconnects and receives the missed lines. */
const MAX_BUFFERED_BYTES = 1024 * 1024;

const EMPTY = z.literal('').transform(() => undefined);
const Query = z.object({
  after: z.coerce.number().int().min(0).default(0),
  /** Minimum level. */
  level: EMPTY.or(z.enum(LEVELS)).optional(),
  source: EMPTY.or(z.enum(['request', 'function', 'service'])).optional(),
});

export const logRoutes: DashboardRoutes = ({ recentLines }, app) => {
  const streams = new Set<PassThrough>();

  const list = async ({ query }: FastifyRequest): Promise<LogPage> => {
    const { after, level, source } = readQuery(query);
    const least = level === undefined ? 0 : LEVELS.indexOf(level);
    const lines = (await recentLines.after(after))
      .map(toLogLine)
      .filter((line) => LEVELS.indexOf(line.level) >= least && (source ?? line.source) === line.source);
    return { lines };
  };

  const follow = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
    // When it reconnects, the browser sends the id of the last event it received.
    const seen = Number(request.headers['last-event-id']);
    const from = Number.isInteger(seen) && seen > 0 ? seen : readQuery(request.query).after;
    const stream = new PassThrough();
    const write = (text: string): void => {
      if (stream.writableEnded) return;
      stream.write(text);
      if (stream.writableLength + stream.readableLength > MAX_BUFFERED_BYTES) stream.end();
    };
    write(`retry: ${RECONNECT_MS}\n: the log of this instance\n\n`);
    let last = 0;
    const writeLine = (line: RecentLine): void => {
      if (line.seq <= last) return;
      last = line.seq;
      write(toEvent(line));
    };
    // Buffer new lines until the earlier ones have been read.
    let pending: RecentLine[] | undefined = [];
    const unfollow = recentLines.follow((line) => (pending ? pending.push(line) : writeLine(line)));
    const heartbeat = setInterval(() => write(':\n\n'), HEARTBEAT_MS);
    const end = setTimeout(() => stream.end(), LIFETIME_MS);
    streams.add(stream);
    stream.once('close', () => {
      clearInterval(heartbeat);
      clearTimeout(end);
      unfollow();
      streams.delete(stream);
    });
    reply.raw.once('close', () => stream.destroy());
    const earlier = await recentLines.after(from);
    for (const line of [...earlier, ...pending]) writeLine(line);
    pending = undefined;
    return reply.header('x-accel-buffering', 'no').type('text/event-stream; charset=utf-8').send(stream);
  };

  // Shutdown waits for responses in flight, and streams do not end by themselves.
  app.addHook('preClose', (done) => {
    for (const stream of streams) stream.end();
    done();
  });
  return [
    ['GET', '/logs', 'read', list],
    ['GET', '/logs/stream', 'read', follow, { deadline: 'none' }],
  ];
};

function readQuery(query: unknown): z.infer<typeof Query> {
  const parsed = Query.safeParse(query);
  if (!parsed.success) {
    throw badPath(`The query parameters are after=<seq>, level=<${LEVELS.join(', ')}> and source`);
  }
  return parsed.data;
}

function toEvent(line: RecentLine): string {
  return `id: ${line.seq}\ndata: ${JSON.stringify(toLogLine(line))}\n\n`;
}

function toLogLine({ seq, text }: RecentLine): LogLine {
  const { level, time, msg, ...fields } = parseLine(text);
  const isRequest = msg === 'request' && typeof fields['status'] === 'number';
  // The log line of a request names the function that handled it, but it is not output of that function.
  const functionName = !isRequest && typeof fields['function'] === 'string' ? fields['function'] : null;
  return {
    seq,
    time: typeof time === 'string' ? time : '',
    level: LEVELS.find((name) => name === level) ?? 'info',
    source: isRequest ? 'request' : functionName === null ? 'service' : 'function',
    message: isRequest
      ? `${String(fields['status'])} ${String(fields['method'])} ${String(fields['url'])}`
      : typeof msg === 'string'
        ? msg
        : '',
    functionName,
    fields,
  };
}

function parseLine(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    // Show a truncated line as text.
    return { msg: text };
  }
}
