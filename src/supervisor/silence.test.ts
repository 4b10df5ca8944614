import { describe, expect, it, test } from 'vitest';
import { parseStat, readProcessTimes, Silence, type ProcessTimes } from './silence.ts';

test.each([
  ['1 (node) R 1 1 1 0 -1 4194560 500 0 0 0 120 30 0 0 20 0 11 0 100', { cpuMs: 1_500, isHeldUp: true }],
  ['1 (a (b) c) S 1 1 1 0 -1 4194560 500 0 0 0 1 2 0 0 20 0 11 0 100', { cpuMs: 30, isHeldUp: false }],
  ['1 (node) D 1 1 1 0 -1 4194560 500 0 0 0 0 0 0 0 20 0 11 0 100', { cpuMs: 0, isHeldUp: true }],
  ['', undefined],
])('reads %j', (stat, times) => {
  expect(parseStat(stat)).toEqual(times);
});

test.runIf(process.platform === 'linux')('reads the times of a process', () => {
  expect(readProcessTimes(process.pid)?.cpuMs).toBeGreaterThan(0);
});

describe('the silence of a process', () => {
  let times: ProcessTimes | undefined;
  const silence = (): Silence => new Silence(() => times);

  it('counts the processor time of one that computes', () => {
    const subject = silence();
    times = { cpuMs: 1_000, isHeldUp: true };
    subject.add(1_000);
    times = { cpuMs: 1_200, isHeldUp: true };
    expect(subject.add(1_000)).toBe(1_200);
  });

  it('does not count the time in which the machine gives it no processor', () => {
    const subject = silence();
    times = { cpuMs: 0, isHeldUp: true };
    for (let tick = 0; tick < 100; tick++) subject.add(1_000);
    expect(subject.add(1_000)).toBe(0);
  });

  it('counts the whole time of one that waits or is stopped', () => {
    const subject = silence();
    times = { cpuMs: 0, isHeldUp: false };
    subject.add(1_000);
    expect(subject.add(1_000)).toBe(2_000);
  });

  it('counts the whole time where processor times are unknown', () => {
    const subject = silence();
    times = undefined;
    subject.add(1_000);
    expect(subject.add(1_000)).toBe(2_000);
  });

  it('begins again with each answer', () => {
    const subject = silence();
    times = undefined;
    subject.add(1_000);
    subject.reset();
    expect(subject.add(1_000)).toBe(1_000);
  });
});
