import fastify from 'fastify';
import { afterEach, expect, test, vi } from 'vitest';
import { dropRest } from './rest-of-request.ts';

afterEach(() => {
  vi.useRealTimers();
});

test('an injected request has no connection to close later', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
  const app = fastify();
  app.get('/', (request) => {
    dropRest(request.raw);
    return 'done';
  });
  expect((await app.inject('/')).body).toBe('done');
  expect(() => vi.advanceTimersByTime(60_000)).not.toThrow();
});
