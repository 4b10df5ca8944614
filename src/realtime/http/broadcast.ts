// Broadcasts over HTTP: what clients send before they have joined, and what servers send that never join.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { readBody } from '../../http/body.ts';
import { resolveDataCaller, type Caller } from '../../identity/caller.ts';
import { fitsBinaryHead, isObject, jsonText, UnreadableFrame } from '../gateway/message.ts';
import type { Broadcast, RoomName } from '../hub/room.ts';
import {
  badBody,
  badMessages,
  invalidKey,
  mayNotSend,
  tooManyRequests,
  unsupportedType,
} from '../problem.ts';
import { Rate } from '../channel/rate.ts';
import type { Services } from '../services.ts';

/** Of one key or user a second, for each message that a socket may send. */
const TIMES_A_SOCKET = 10;
const MOST_SENDERS = 10_000;

export function registerBroadcast(app: FastifyInstance, services: Services): void {
  const rates = new Map<string, Rate>();

  const take = ({ user, role }: Caller): void => {
    const sender = user?.sub ?? role;
    let rate = rates.get(sender);
    if (!rate) {
      if (rates.size >= MOST_SENDERS) rates.clear();
      rates.set(sender, (rate = new Rate()));
    }
    const perSecond = services.settings().limits.messages * TIMES_A_SOCKET;
    if (!rate.take(perSecond, perSecond * 3)) throw tooManyRequests();
  };

  const mayWrite = async (caller: Caller, { topic, isPrivate }: RoomName): Promise<boolean> =>
    !isPrivate || (await services.rights.mayWrite(topic, 'broadcast', caller, {}));

  const send = (name: RoomName, broadcast: Broadcast): void => void services.hub.broadcast(name, broadcast);

  app.post('/api/broadcast', async (request, reply) => {
    const caller = await callerOf(services, request);
    const messages = readMessages(await readJson(services, request));
    for (const { name, broadcast } of messages) {
      take(caller);
      // Whoever sends many is not told about those that he may not send.
      if (await mayWrite(caller, name)) send(name, broadcast);
    }
    return accepted(reply);
  });

  app.post<{ Params: { topic: string; event: string }; Querystring: { private?: string } }>(
    '/api/broadcast/:topic/events/:event',
    async (request, reply) => {
      const caller = await callerOf(services, request);
      const { topic, event } = request.params;
      const name = { topic, isPrivate: request.query.private === 'true' };
      if (!isUsable(topic) || !isUsable(event)) throw badMessages('topic and event have 1 to 255 bytes');
      take(caller);
      const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? 'application/json';
      if (type !== 'application/json' && type !== 'application/octet-stream') throw unsupportedType(type);
      const content =
        type === 'application/json'
          ? { json: payloadText(await readJson(services, request)) }
          : { bytes: await read(services, request) };
      if (!(await mayWrite(caller, name))) throw mayNotSend(topic);
      send(name, { event, content });
      return accepted(reply);
    },
  );
}

function accepted(reply: FastifyReply): FastifyReply {
  return reply.code(202).send();
}

/** Throws a Problem. */
async function callerOf({ context }: Services, request: FastifyRequest): Promise<Caller> {
  const { apikey } = request.query as { apikey?: string | string[] };
  const presented = await context.credentials.read(request.headers, [apikey].flat()[0]);
  const { bearer } = presented;
  // A token that a user presents is enough, as it is on the socket.
  const resolution = resolveDataCaller(
    presented.apikey.kind === 'none' && bearer.kind === 'token'
      ? { apikey: { kind: 'publishable' }, bearer }
      : presented,
  );
  if (!resolution.ok) throw invalidKey();
  return resolution.caller;
}

async function read({ settings }: Services, request: FastifyRequest): Promise<Buffer> {
  return await readBody(request.body, settings().limits.payload, request.headers['content-length']);
}

async function readJson(services: Services, request: FastifyRequest): Promise<unknown> {
  const text = (await read(services, request)).toString();
  try {
    return text === '' ? {} : (JSON.parse(text) as unknown);
  } catch {
    throw badBody();
  }
}

/** Throws a Problem. */
function payloadText(payload: unknown): string {
  try {
    return jsonText(payload);
  } catch (error) {
    if (!(error instanceof UnreadableFrame)) throw error;
    throw badMessages(`the payload is ${error.message}`);
  }
}

type Message = { readonly name: RoomName; readonly broadcast: Broadcast };

/** Throws a Problem that names the entries. */
function readMessages(body: unknown): Message[] {
  const messages = isObject(body) ? body['messages'] : undefined;
  if (!Array.isArray(messages)) throw badMessages('`messages` is a list');
  return messages.map((message: unknown, at) => {
    const { topic, event, payload, private: isPrivate } = isObject(message) ? message : {};
    if (typeof topic !== 'string' || !isUsable(topic)) {
      throw badMessages(`messages[${at}].topic is a text of 1 to 255 bytes`);
    }
    if (typeof event !== 'string' || !isUsable(event)) {
      throw badMessages(`messages[${at}].event is a text of 1 to 255 bytes`);
    }
    return {
      name: { topic, isPrivate: isPrivate === true },
      broadcast: { event, content: { json: payloadText(payload ?? {}) } },
    };
  });
}

function isUsable(name: string): boolean {
  return name !== '' && fitsBinaryHead(`realtime:${name}`);
}
