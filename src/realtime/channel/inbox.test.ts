import { expect, test } from 'vitest';
import type { ClientMessage } from '../protocol/message.ts';
import { Inbox } from './inbox.ts';

const message = (event: string): ClientMessage => ({
  joinRef: null,
  ref: null,
  topic: 't',
  event,
  payload: {},
});
const turn = async (): Promise<void> => await new Promise((resolve) => setImmediate(resolve));

type World = {
  readonly inbox: Inbox<unknown>;
  readonly log: string[];
  /** Settles the messages that wait, in their order. */
  readonly waiting: Array<{ resolve: () => void; reject: (error: Error) => void }>;
  close: () => void;
};

/** Messages named `wait…` wait for the database, messages named `throw…` fail at once. */
function open(onError?: () => void): World {
  const log: string[] = [];
  const waiting: World['waiting'] = [];
  let isOpen = true;
  const inbox = new Inbox<unknown>(undefined, {
    isOpen: () => isOpen,
    handle(_owner, { event }) {
      log.push(event);
      if (event.startsWith('throw')) throw new Error(event);
      if (!event.startsWith('wait')) return undefined;
      return new Promise<void>((resolve, reject) => waiting.push({ resolve, reject }));
    },
    onError(_owner, { event }) {
      log.push(`error ${event}`);
      onError?.();
    },
    onFault: () => log.push('fault'),
  });
  return { inbox, log, waiting, close: () => void (isOpen = false) };
}

test('messages wait for the message before them and keep their order', async () => {
  const { inbox, log, waiting } = open();
  for (const event of ['a', 'wait 1', 'b', 'wait 2', 'c']) inbox.push(message(event));
  expect(log).toEqual(['a', 'wait 1']);
  waiting[0]?.resolve();
  await turn();
  expect(log).toEqual(['a', 'wait 1', 'b', 'wait 2']);
  waiting[1]?.resolve();
  await turn();
  expect(log).toEqual(['a', 'wait 1', 'b', 'wait 2', 'c']);
});

test('an error is reported, and the next message is processed', async () => {
  const { inbox, log, waiting } = open();
  for (const event of ['throw', 'wait', 'a']) inbox.push(message(event));
  waiting[0]?.reject(new Error('failed'));
  await turn();
  expect(log).toEqual(['throw', 'error throw', 'wait', 'error wait', 'a']);
});

test('a fault while an error is reported is passed on', async () => {
  const { inbox, log, waiting } = open(() => {
    throw new Error('fault');
  });
  inbox.push(message('wait'));
  waiting[0]?.reject(new Error('failed'));
  await turn();
  expect(log).toEqual(['wait', 'error wait', 'fault']);
});

test('a paused inbox holds messages, and a closed channel drops them', async () => {
  const { inbox, log, close } = open();
  inbox.pause();
  inbox.push(message('a'));
  expect(log).toEqual([]);
  close();
  inbox.resume();
  await turn();
  expect(log).toEqual([]);
});

test('a full inbox rejects messages', () => {
  const { inbox } = open();
  inbox.pause();
  const accepted = Array.from({ length: 501 }, (_, at) => inbox.push(message(`${at}`)));
  expect(accepted.filter(Boolean).length).toBe(500);
});
