// The one S3-compatible store of a test run, started when the first test asks for it: the test files run in
// processes of their own and reach this one by HTTP.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestProject } from 'vitest/node';
import { startStore, type RunningStore } from '../storage/conformance/s3-server.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Answers with the address and the keys of the store as JSON. */
    s3StoreUrl: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  let running: Promise<RunningStore> | undefined;
  const server = createServer((_request, response) => {
    running ??= startStore();
    running.then(
      ({ store }) => response.end(JSON.stringify(store)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  // It must not keep the process alive, nor end a request early while the store starts.
  server.unref();
  server.requestTimeout = 0;
  project.provide('s3StoreUrl', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return async () => {
    server.closeAllConnections();
    server.close();
    await running?.then((store) => store.stop()).catch(() => {});
  };
}
