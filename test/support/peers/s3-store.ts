// The S3-compatible store of a test run, started on the first request of a test. Test files run in their own processes
// and ask this one over HTTP.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestProject } from 'vitest/node';
import { startStore, type RunningStore } from '../../storage/conformance/s3-server.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** URL that returns the address and keys of the store as JSON. */
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
  // Must not keep the process alive, nor time a request out while the store starts.
  server.unref();
  server.requestTimeout = 0;
  project.provide('s3StoreUrl', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return async () => {
    server.closeAllConnections();
    server.close();
    await running?.then((store) => store.stop()).catch(() => {});
  };
}
