// Broadcasts over HTTP, from clients that have not joined yet and from servers that never join.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { readBody } from '../../http/body.ts';
import { foreignCharset } from '../../http/charset.ts';
import { resolveDataCaller, type Caller } from '../../identity/caller.ts';
import { callerKey } from '../../lib/limits/caller-key.ts';
import { TokenBuckets } from '../../lib/limits/token-bucket.ts';
import { fitsBinaryHead, isObject, jsonText, UnreadableFrame } from '../protocol/message.ts';
import type { Broadcast, RoomName } from '../protocol/room-message.ts';
import {
  badBody,
  badMessages,
  invalidKey,
  sessionRestricted,
  cannotSend,
  tooManyRequests,
  unsupportedType,
} from '../problem.ts';
import type { Services } from '../channel/services.ts';

/** Factor between the rate of one caller over HTTP and the rate of one socket. */
const TIMES_A_SOCKET = 10;
const BURST_SECONDS = 3;
const MAX_SENDERS = 10_000;

type Sender = { readonly caller: Caller; readonly address: string };

export function registerBroadcast(app: FastifyInstance, services: Services): void {
  const rates = new TokenBuckets(MAX_SENDERS);

  const consume = ({ caller, address }: Sender): void => {
    const perSecond = services.settings().limits.messages * TIMES_A_SOCKET;
    const rate = rates.get(callerKey(caller, address));
    if (!rate.tryConsume(perSecond, perSecond * BURST_SECONDS)) throw tooManyRequests();
  };

  const canWrite = async ({ caller, address }: Sender, { topic, isPrivate }: RoomName): Promise<boolean> =>
    !isPrivate || (await services.rights.canWrite(topic, 'broadcast', { caller, address, headers: {} }));

  const send = (name: RoomName, broadcast: Broadcast): void => void services.hub.broadcast(name, broadcast);

  app.post('/api/broadcast', async (request, reply) => {
    const sender = await readSender(services, request);
    const messages = readMessages(await readJson(services, request));
    for (const { name, broadcast } of messages) {
      consume(sender);
      // A batch gets no error for messages that its sender may not send.
      if (await canWrite(sender, name)) send(name, broadcast);
    }
    return accepted(reply);
  });

  app.post<{ Params: { topic: string; event: string }; Querystring: { private?: string } }>(
    '/api/broadcast/:topic/events/:event',
    async (request, reply) => {
      const sender = await readSender(services, request);
      const { topic, event } = request.params;
      const name = { topic, isPrivate: request.query.private === 'true' };
      if (!isUsable(topic) || !isUsable(event)) throw badMessages('topic and event must have 1 to 255 bytes');
      consume(sender);
      const type = request.headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? 'application/json';
      if (type !== 'application/json' && type !== 'application/octet-stream') throw unsupportedType(type);
      const content =
        type === 'application/json'
          ? { json: payloadText(await readJson(services, request)) }
          : { bytes: await read(services, request) };
      if (!(await canWrite(sender, name))) throw cannotSend(topic);
      send(name, { event, content });
      return accepted(reply);
    },
  );
}

function accepted(reply: FastifyReply): FastifyReply {
  return reply.code(202).send();
}

/** Throws a Problem. */
async function readSender({ context }: Services, request: FastifyRequest): Promise<Sender> {
  const { apikey } = request.query as { apikey?: string | string[] };
  const presented = await context.credentials.read(request.headers, [apikey].flat()[0]);
  const { bearer } = presented;
  // A user's token is sufficient without an API key, as on the socket.
  const resolution = resolveDataCaller(
    presented.apikey.kind === 'none' && bearer.kind === 'token'
      ? { apikey: { kind: 'publishable' }, bearer }
      : presented,
  );
  if (!resolution.ok) throw resolution.refusal.reason === 'restricted' ? sessionRestricted() : invalidKey();
  return { caller: resolution.caller, address: request.client.address };
}

async function read({ settings }: Services, request: FastifyRequest): Promise<Buffer> {
  return await readBody(request.body, settings().limits.payload, request.headers['content-length']);
}

async function readJson(services: Services, request: FastifyRequest): Promise<unknown> {
  const type = request.headers['content-type'];
  if (type !== undefined && foreignCharset(type) !== undefined) throw unsupportedType(type);
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
  if (!Array.isArray(messages)) throw badMessages('`messages` must be a list');
  return messages.map((message: unknown, at) => {
    const { topic, event, payload, private: isPrivate } = isObject(message) ? message : {};
    if (typeof topic !== 'string' || !isUsable(topic)) {
      throw badMessages(`messages[${at}].topic must be a text of 1 to 255 bytes`);
    }
    if (typeof event !== 'string' || !isUsable(event)) {
      throw badMessages(`messages[${at}].event must be a text of 1 to 255 bytes`);
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
