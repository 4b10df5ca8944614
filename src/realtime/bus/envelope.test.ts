import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { Envelopes } from './envelope.ts';

const keys = (
  secret: string,
  accepted: readonly string[] = [secret],
): ConstructorParameters<typeof Envelopes>[0] => {
  const mac = (key: string, text: string): Buffer => createHmac('sha256', key).update(text).digest();
  return {
    sign: (text) => mac(secret, text),
    verify: (text, given) => accepted.some((key) => mac(key, text).equals(given)),
  };
};

const BEAT = '{"kind":"beat"}';

test('an instance opens a sealed notification once, and only in its channel', () => {
  const sealed = new Envelopes(keys('a')).seal('svc_rt_1', 'one', 1, [BEAT, BEAT]);
  const receiver = new Envelopes(keys('a'));
  expect(receiver.open('svc_rt_2', sealed)).toBeUndefined();
  expect(receiver.open('svc_rt_1', sealed)).toEqual({
    from: 'one',
    number: 1,
    messages: [{ kind: 'beat' }, { kind: 'beat' }],
  });
  expect(receiver.open('svc_rt_1', sealed)).toBeUndefined();
});

test('an earlier version reads the same three parts', () => {
  const sealed = new Envelopes(keys('a')).seal('svc_rt_1', 'one', 7, [BEAT]);
  expect((JSON.parse(sealed) as unknown[]).slice(0, 3)).toEqual(['one', 7, [{ kind: 'beat' }]]);
});

test('a key that is being replaced is still accepted', () => {
  const sealed = new Envelopes(keys('old')).seal('svc_rt_1', 'one', 1, [BEAT]);
  expect(new Envelopes(keys('new', ['new', 'old'])).open('svc_rt_1', sealed)).toBeDefined();
  expect(new Envelopes(keys('new')).open('svc_rt_1', sealed)).toBeUndefined();
});

test.each([
  ['unsigned', `["one",1,[${BEAT}]]`],
  ['with another signature', `["one",1,[${BEAT}],0,"${'A'.repeat(43)}"]`],
  ['empty', ''],
  ['not JSON', 'x'.repeat(100)],
])('a notification that is %s is not opened', (_what, payload) => {
  expect(new Envelopes(keys('a')).open('svc_rt_1', payload)).toBeUndefined();
});

test('a notification that was kept for later is not opened', () => {
  let now = 1_000_000;
  const clock = (): number => now;
  const sealed = new Envelopes(keys('a'), clock).seal('svc_rt_1', 'one', 1, [BEAT]);
  now += 180_000;
  expect(new Envelopes(keys('a'), clock).open('svc_rt_1', sealed)).toBeUndefined();
});

test('a changed part makes the signature wrong', () => {
  const sealed = new Envelopes(keys('a')).seal('svc_rt_1', 'one', 1, [BEAT]);
  for (const changed of [
    sealed.replace('"one"', '"two"'),
    sealed.replace(',1,', ',2,'),
    sealed.replace('beat', 'bye'),
  ]) {
    expect(new Envelopes(keys('a')).open('svc_rt_1', changed)).toBeUndefined();
  }
});
