import fastify from 'fastify';
import { afterEach, expect, test, vi } from 'vitest';
import { RecentLines } from '../../log/recent-lines.ts';
import type { DashboardContext } from '../dashboard-context.ts';
import { logRoutes } from './logs.ts';
import { addRoutes } from './route.ts';

afterEach(() => {
  vi.useRealTimers();
});

test('a stream ends after its lifetime, so that an ended session cannot keep reading', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'clearTimeout', 'clearInterval'] });
  const recentLines = new RecentLines();
  const app = fastify();
  addRoutes(app, logRoutes({ recentLines } as Partial<DashboardContext> as DashboardContext, app));
  recentLines.push(JSON.stringify({ level: 'info', time: 't', msg: 'before' }));
  const answered: { text?: string } = {};
  void app.inject('/logs/stream').then((answer) => {
    answered.text = answer.body;
  });
  for (let second = 0; second < 70 && answered.text === undefined; second++) {
    // Run real event loop turns between the fake seconds.
    await new Promise((resolve) => setImmediate(resolve));
    await new Promise((resolve) => setImmediate(resolve));
    vi.advanceTimersByTime(1000);
  }
  await vi.waitFor(() => expect(answered.text).toBeDefined());
  const { text } = answered;
  expect(text).toMatch(/^retry: \d+\n/);
  expect(text).toContain('"message":"before"');
  // Heartbeats prevent proxies from closing the connection.
  expect(text?.match(/^:$/gm)?.length).toBeGreaterThanOrEqual(3);
  await app.close();
});
