import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { createLog } from './log.ts';
import { RecentLines, type RecentLine } from './recent-lines.ts';

const seqs = (lines: RecentLine[]): number[] => lines.map(({ seq }) => seq);

test('the last lines are kept in order, and no more than that', () => {
  const lines = new RecentLines(3);
  for (const text of ['a', 'b', 'c', 'd', 'e']) lines.push(text);
  expect(lines.after(0)).toEqual([
    { seq: 3, text: 'c' },
    { seq: 4, text: 'd' },
    { seq: 5, text: 'e' },
  ]);
  expect(seqs(lines.after(4))).toEqual([5]);
  expect(seqs(lines.after(5))).toEqual([]);
});

test('a number from before a restart gets everything', () => {
  const lines = new RecentLines(3);
  lines.push('a');
  expect(seqs(lines.after(900))).toEqual([1]);
});

test('a follower receives new lines until it stops', () => {
  const lines = new RecentLines(3);
  const heard: number[] = [];
  const stop = lines.follow(({ seq }) => heard.push(seq));
  lines.push('a');
  stop();
  lines.push('b');
  expect(heard).toEqual([1]);
});

test('a huge line takes little room and stays readable', () => {
  const lines = new RecentLines(3);
  lines.push(JSON.stringify({ level: 'info', msg: 'x'.repeat(100_000), function: 'f' }));
  lines.push(JSON.stringify({ level: 'info', msg: 'm', many: Array.from({ length: 9000 }, () => 'y') }));
  lines.push('z'.repeat(100_000));
  const kept = lines.after(0).map(({ text }) => text);
  for (const text of kept) expect(text.length).toBeLessThanOrEqual(8 * 1024);
  expect(JSON.parse(kept[0] ?? '')).toMatchObject({ level: 'info', function: 'f' });
  expect(JSON.parse(kept[1] ?? '')).toMatchObject({ msg: 'm', shortened: true });
});

test('a line is the very text that is written, secrets already gone', () => {
  const recentLines = new RecentLines();
  let written = '';
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      written += chunk.toString();
      done();
    },
  });
  const log = createLog({ destination, sinks: [recentLines] });
  log.info({ token: 'canary', user: { password: 'canary' } }, 'hello');
  const [line] = recentLines.after(0);
  expect(line?.text).toBe(written);
  expect(written).toContain('[redacted]');
  expect(written).not.toContain('canary');
});
