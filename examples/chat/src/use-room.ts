// State of one room: messages and members as rows, presence and typing as messages between clients.
import { useEffect, useRef, useState } from 'react';
import type { RealtimeChannel } from '@supabase/supabase-js';
import { openChannel, supabase, type Member, type Message } from './client.ts';
import { useTyping } from './use-typing.ts';

const NEWEST = 100;
const TYPING_NOTICE_INTERVAL_MS = 2_000;

type Change = (messages: readonly Message[]) => readonly Message[];

export type RoomState = {
  /** Oldest first; undefined until they are loaded. */
  readonly messages: readonly Message[] | undefined;
  readonly members: readonly Member[];
  /** Ids of users who have this room open. */
  readonly present: ReadonlySet<string>;
  /** Ids of users who are typing. */
  readonly typing: ReadonlySet<string>;
  readonly isLive: boolean;
  readonly notifyTyping: () => void;
};

export function useRoom(room: string, me: string): RoomState {
  const [messages, setMessages] = useState<readonly Message[]>();
  const [members, setMembers] = useState<readonly Member[]>([]);
  const [present, setPresent] = useState<ReadonlySet<string>>(new Set());
  const [isLive, setIsLive] = useState(false);
  const { typing, add: addTyping, remove: removeTyping } = useTyping();
  const channel = useRef<RealtimeChannel>(undefined);
  const lastTypingNoticeAt = useRef(0);

  useEffect(() => {
    // Changes that arrive while the messages load may be missing from the result, so they are applied again.
    let sinceJoin: Change[] = [];
    const change = (next: Change): void => {
      sinceJoin.push(next);
      setMessages((before) => before && next(before));
    };
    const loadMessages = async (): Promise<void> => {
      sinceJoin = [];
      const { data } = await supabase
        .from('messages')
        .select()
        .eq('room_id', room)
        .order('id', { ascending: false })
        .limit(NEWEST);
      if (data) setMessages(sinceJoin.reduce((all, next) => next(all), data.reverse() as readonly Message[]));
    };
    const loadMembers = async (): Promise<void> => {
      const { data } = await supabase.from('members').select().eq('room_id', room).order('joined_at');
      if (data) setMembers(data);
    };

    return openChannel(() => {
      const opened = supabase.channel(`room:${room}`, {
        config: { private: true, presence: { key: me } },
      });
      channel.current = opened;
      const ofRoom = { schema: 'public', filter: `room_id=eq.${room}` };
      return opened
        .on<Message>(
          'postgres_changes',
          { event: 'INSERT', table: 'messages', ...ofRoom },
          ({ new: row }) => {
            removeTyping(row.author_id);
            change((all) => (all.some(({ id }) => id === row.id) ? all : [...all, row]));
          },
        )
        .on<Message>(
          'postgres_changes',
          { event: 'DELETE', schema: 'public', table: 'messages' },
          ({ old }) => change((all) => all.filter(({ id }) => id !== old.id)),
        )
        .on('postgres_changes', { event: '*', table: 'members', ...ofRoom }, () => void loadMembers())
        .on('presence', { event: 'sync' }, () => setPresent(new Set(Object.keys(opened.presenceState()))))
        .on('broadcast', { event: 'typing' }, ({ payload }) => addTyping(String(payload['user'])))
        .subscribe((status) => {
          setIsLive(status === 'SUBSCRIBED');
          if (status !== 'SUBSCRIBED') return;
          // Load after every join, because changes before it are not sent.
          void loadMessages();
          void loadMembers();
          void opened.track({});
        });
    });
  }, [room, me, addTyping, removeTyping]);

  const notifyTyping = (): void => {
    const now = Date.now();
    if (now - lastTypingNoticeAt.current < TYPING_NOTICE_INTERVAL_MS) return;
    lastTypingNoticeAt.current = now;
    void channel.current?.send({ type: 'broadcast', event: 'typing', payload: { user: me } });
  };

  return { messages, members, present, typing, isLive, notifyTyping };
}
