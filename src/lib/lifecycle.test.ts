import { expect, test } from 'vitest';
import { Lifecycle, type Component } from './lifecycle.ts';

const NAMES = ['database', 'server', 'jobs'];

/** Records the calls of three components. `fails`: the call that throws, for example `start server`. */
function recorder(fails?: string): { calls: string[]; components: Component[] } {
  const calls: string[] = [];
  const call = async (name: string): Promise<void> => {
    calls.push(name);
    await Promise.resolve();
    if (name === fails) throw new Error(`${name} failed`);
  };
  const components = NAMES.map((name) => ({
    name,
    start: () => call(`start ${name}`),
    stop: () => call(`stop ${name}`),
  }));
  return { calls, components };
}

async function startAll(lifecycle: Lifecycle, components: readonly Component[]): Promise<void> {
  for (const component of components) await lifecycle.start(component);
}

test('components stop in the reverse of the order in which they started', async () => {
  const { calls, components } = recorder();
  const lifecycle = new Lifecycle();
  await startAll(lifecycle, components);
  await lifecycle.stop();
  expect(calls).toEqual([
    'start database',
    'start server',
    'start jobs',
    'stop jobs',
    'stop server',
    'stop database',
  ]);
});

test.each(NAMES)('after a failed start of %s, it and the components before it are stopped', async (name) => {
  const { calls, components } = recorder(`start ${name}`);
  const lifecycle = new Lifecycle();
  await expect(startAll(lifecycle, components)).rejects.toThrow(`start ${name} failed`);
  await lifecycle.stop();
  const started = NAMES.slice(0, NAMES.indexOf(name) + 1);
  expect(calls).toEqual([
    ...started.map((each) => `start ${each}`),
    ...started.toReversed().map((each) => `stop ${each}`),
  ]);
});

test.each(NAMES)('a failed stop of %s does not keep the others from stopping', async (name) => {
  const { calls, components } = recorder(`stop ${name}`);
  const lifecycle = new Lifecycle();
  await startAll(lifecycle, components);
  await expect(lifecycle.stop()).rejects.toThrow(`could not stop ${name}`);
  expect(calls.slice(3)).toEqual(['stop jobs', 'stop server', 'stop database']);
});

test('a component stops once, however often stop is called', async () => {
  const { calls, components } = recorder();
  const lifecycle = new Lifecycle();
  await startAll(lifecycle, components);
  await Promise.all([lifecycle.stop(), lifecycle.stop()]);
  expect(calls.filter((call) => call.startsWith('stop'))).toHaveLength(3);
});
