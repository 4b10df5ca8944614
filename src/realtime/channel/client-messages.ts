// Handles the messages that a client sends to a joined channel.
import { SYSTEM } from '../problem.ts';
import type { ClientMessage } from '../protocol/message.ts';
import { readBroadcast } from './broadcast.ts';
import type { ChannelMember } from './channel-member.ts';
import { readPresence } from './presence.ts';

type Handler = (member: ChannelMember, message: ClientMessage) => Promise<void> | undefined;

/** Unknown events are ignored. */
const HANDLERS: ReadonlyMap<string, Handler> = new Map<string, Handler>([
  ['broadcast', handleBroadcast],
  ['presence', handlePresence],
  ['access_token', async ({ caller }, { payload }) => await caller.refresh(payload['access_token'])],
  ['phx_leave', handleLeave],
]);

/** Returns a promise when the message waits for the database. Errors are passed to `replyFailure`. */
export function handleMessage(member: ChannelMember, message: ClientMessage): Promise<void> | undefined {
  return HANDLERS.get(message.event)?.(member, message);
}

export function replyFailure(member: ChannelMember, message: ClientMessage, error: unknown): void {
  const { reason } = member.services.toRefusal(error);
  const needsReply = message.event !== 'broadcast' || member.request.broadcast.ack;
  if (needsReply) member.frames.rejectWith(message.ref, reason);
}

export function handleLeave(member: ChannelMember, message: ClientMessage): undefined {
  member.frames.reply(message.ref, 'ok', '{}');
  member.close();
}

function handleBroadcast(member: ChannelMember, message: ClientMessage): Promise<void> | undefined {
  const { services, frames } = member;
  const { ack, self } = member.request.broadcast;
  if (!member.socket.tryConsumeMessage()) {
    member.close('error', SYSTEM.tooManyMessages);
    return undefined;
  }
  const broadcast = readBroadcast(message, services.settings().limits.payload);
  if (typeof broadcast === 'string') {
    if (ack) frames.rejectWith(message.ref, broadcast);
    return undefined;
  }
  return member.ifAllowed('broadcast', (isAllowed) => {
    if (member.state !== 'joined') return;
    if (isAllowed) services.hub.broadcast(member.name, broadcast, self ? undefined : member);
    if (ack) replyAllowed(member, message, isAllowed);
  });
}

function handlePresence(member: ChannelMember, message: ClientMessage): Promise<void> | undefined {
  const { services, frames } = member;
  if (!member.socket.tryConsumePresence()) {
    member.close('error', SYSTEM.tooManyPresence);
    return undefined;
  }
  const request = readPresence(message, services.settings().limits.payload);
  switch (request.kind) {
    case 'untrack':
      if (member.room) services.hub.untrack(member.room, member);
      frames.reply(message.ref, 'ok', '{}');
      return undefined;
    case 'invalid':
      frames.rejectWith(message.ref, request.reason);
      return undefined;
    case 'too-large':
      member.close('error', SYSTEM.presenceTooLarge);
      return undefined;
    case 'track':
      return member.ifAllowed('presence', (isAllowed) => {
        if (member.state !== 'joined') return;
        replyAllowed(member, message, isAllowed);
        if (isAllowed) track(member, request.payload);
      });
  }
}

function track(member: ChannelMember, payload: string): void {
  if (!member.room) return;
  // Without the state, a client that did not enable presence could not apply the changes.
  if (!member.hasPresenceState && member.rights.presence) member.sendPresenceState();
  member.services.hub.track(member.room, member, member.presenceKey, payload);
}

function replyAllowed({ frames }: ChannelMember, { ref }: ClientMessage, isAllowed: boolean): void {
  if (isAllowed) frames.reply(ref, 'ok', '{}');
  else frames.rejectWith(ref, 'Unauthorized');
}
