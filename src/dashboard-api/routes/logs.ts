// The latest log lines of this instance, as a list and as a stream.
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
/** Then the browser reconnects, and its session is checked again. */
const LIFETIME_MS = 60_000;
const RECONNECT_MS = 500;
/** A reader this far behind is cut off; the browser reconnects and gets what it missed. */
const MAX_BUFFERED_BYTES = 1024 * 1024;

const NONE = z.literal('').transform(() => undefined);
const Query = z.object({
  after: z.coerce.number().int().min(0).default(0),
  /** This level and those above. */
  level: NONE.or(z.enum(LEVELS)).optional(),
  source: NONE.or(z.enum(['request', 'function', 'service'])).optional(),
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
    // When reconnecting, the browser says where it was.
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
    // Those that come while the earlier ones are read wait for their turn.
    let waiting: RecentLine[] | undefined = [];
    const unfollow = recentLines.follow((line) => (waiting ? waiting.push(line) : writeLine(line)));
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
    for (const line of [...earlier, ...waiting]) writeLine(line);
    waiting = undefined;
    return reply.header('x-accel-buffering', 'no').type('text/event-stream; charset=utf-8').send(stream);
  };

  // A shutdown waits for responses in flight, and streams do not end by themselves.
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
  // The line of a request says which function answered, but does not come from it.
  const functionName = !isRequest && typeof fields['function'] === 'string' ? fields['function'] : null;
  return {
    seq,
    time: typeof time === 'string' ? time : '',
    level: LEVELS.find((one) => one === level) ?? 'info',
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
    // A line that was cut short is still worth showing.
    return { msg: text };
  }
}
