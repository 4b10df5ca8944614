// Joins a channel: checks → caller → rights → changes → room → stored broadcasts → reply.
import type { Caller } from '../../identity/caller.ts';
import { AccessLease } from '../access/access-lease.ts';
import {
  cannotRead,
  cannotReplay,
  privateOnly,
  SYSTEM,
  tooManyBindings,
  topicRequired,
  topicTooLong,
} from '../problem.ts';
import { fitsBinaryHead, jsonText } from '../protocol/message.ts';
import type { Broadcast, RoomName } from '../protocol/room-message.ts';
import type { ChannelMember } from './channel-member.ts';
import { MAX_REPLAYED, type JoinRequest, type RequestedBinding } from './join-request.ts';

const MAX_BINDINGS = 100;
const REPLICATION_READY_TIMEOUT_MS = 60_000;

type Binding = RequestedBinding & { readonly id: number };
type ReplayedBroadcast = { readonly id: string; readonly broadcast: Broadcast };

/** Joins and replies to `ref`. Returns early when the channel was closed in the meantime. Throws `JoinRefused`. */
export async function joinChannel(member: ChannelMember, ref: string | null): Promise<void> {
  await admit(member);
  if (member.state === 'joining') await enter(member, ref);
}

/** Replies with the reason why a join failed. The reply is delayed, because clients send the join again without end. */
export async function refuseJoin(member: ChannelMember, ref: string | null, error: unknown): Promise<void> {
  const { services, socket, frames } = member;
  const { reason, code } = services.toRefusal(error);
  services.counters.joins.add(code);
  await new Promise((resolve) => setTimeout(resolve, socket.refusalDelay()));
  if (member.state !== 'joining') return;
  frames.rejectWith(ref, reason);
  member.end();
}

/** Throws `JoinRefused`. */
async function admit(member: ChannelMember): Promise<void> {
  const { services, socket, name, request } = member;
  assertJoinable(name, request, services.settings().privateOnly);
  const caller = await member.caller.verify(request.token);
  // From here on, the end of the session or of the signing key reaches the channel.
  member.caller.set(caller);
  await socket.waitForTurn(caller);
  if (member.state !== 'joining') return;
  await services.sessions.assertAlive(caller);
  member.caller.assertCurrent(caller);
  if (!name.isPrivate) return;
  await member.readRights();
  member.caller.assertCurrent(caller);
  if (!member.rights.broadcast && !member.rights.presence) throw cannotRead(name.topic);
  member.lease = new AccessLease({
    lengthMs: () => services.rights.leaseMs,
    checkRights: async () => await member.checkRights(),
  });
  services.rights.watched += 1;
}

/** Throws `JoinRefused` for a request that no caller may send. */
function assertJoinable(
  { topic, isPrivate }: RoomName,
  { broadcast: { replay }, changes }: JoinRequest,
  isPrivateOnly: boolean,
): void {
  if (topic === '') throw topicRequired();
  if (!fitsBinaryHead(`realtime:${topic}`)) throw topicTooLong();
  if (replay?.isBroken === true) {
    throw cannotReplay('`since` is milliseconds since 1970, `limit` a number from 1 to 25');
  }
  if (replay && !isPrivate) throw cannotReplay('Only private channels keep messages');
  if (!isPrivate && isPrivateOnly) throw privateOnly();
  if (changes.length > MAX_BINDINGS) throw tooManyBindings(MAX_BINDINGS);
}

/** Throws `JoinRefused`. */
async function enter(member: ChannelMember, ref: string | null): Promise<void> {
  const { services, socket, frames, request } = member;
  const caller = member.caller.current;
  const bindings = request.changes.map((binding) => ({ ...binding, id: socket.nextBindingId() }));
  if (bindings.length > 0) {
    await subscribe(member, bindings);
    if (member.state !== 'joining') return;
    member.caller.assertCurrent(caller);
  }
  // Entering the room before reading stored broadcasts leaves no gap between the two.
  const room = services.hub.enter(member.name, member);
  member.room = room;
  const stored = await readReplayed(member, caller);
  if (member.state !== 'joining') return;
  member.caller.assertCurrent(caller);
  const echoes = jsonText({ postgres_changes: bindings.map(({ id, echo }) => ({ ...echo, id })) });
  member.state = 'joined';
  member.caller.watchExpiry();
  services.counters.joins.add('joined');
  frames.reply(ref, 'ok', echoes);
  if (stored.length > 0) member.replayed = new Set(stored.map(({ id }) => id));
  for (const { broadcast } of stored) room.replay(member, broadcast);
  if (request.presence.enabled && member.rights.presence) member.sendPresenceState();
  if (request.broadcast.replicationReady) notifyReplicationReady(member);
  member.buffer.flush();
}

/** Throws `JoinRefused`. */
async function subscribe(member: ChannelMember, bindings: readonly Binding[]): Promise<void> {
  const { services, frames } = member;
  const afterJoin = (send: () => void): void => {
    if (!member.buffer.tryHold(send) && member.state === 'joined') send();
  };
  const subscription = await services.changes.subscribe({
    channel: member.name.topic,
    bindings,
    caller: member.caller.current,
    address: member.socket.address,
    waitMs: member.request.waitForChangesMs,
    deliver: (payload) =>
      afterJoin(() => {
        services.counters.deliveries.add('change');
        if (member.room) member.room.delivered += 1;
        frames.push('postgres_changes', payload);
      }),
    sendSystemMessage: (status, message) =>
      afterJoin(() => frames.system('postgres_changes', status, message)),
    lost: () => member.fail(),
  });
  if (member.state === 'joining') member.subscription = subscription;
  else subscription.close();
}

/** Reads the stored broadcasts that the request asks for, oldest first. */
async function readReplayed(member: ChannelMember, caller: Caller): Promise<ReplayedBroadcast[]> {
  const { replay } = member.request.broadcast;
  if (replay?.since === undefined || !member.rights.broadcast) return [];
  const limit = Math.min(replay.limit ?? MAX_REPLAYED, MAX_REPLAYED);
  const stored = await member.services.replay(caller, member.name.topic, new Date(replay.since), limit);
  return stored.map(({ id, event, content }) => ({
    id,
    broadcast: { event, content, meta: JSON.stringify({ id, replayed: true }) },
  }));
}

function notifyReplicationReady(member: ChannelMember): void {
  void member.services.whenLive(REPLICATION_READY_TIMEOUT_MS).then((isLive) => {
    if (member.state !== 'joined') return;
    if (isLive) member.frames.system('system', 'ok', SYSTEM.replicationReady);
    else member.close('error', SYSTEM.replicationLate);
  });
}
