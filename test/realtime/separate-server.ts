// A backend on a separate PostgreSQL of the test, in its first database.
import { loadConfig } from '../../src/config/load.ts';
import type { ApiKeys } from '../../src/identity/api-key.ts';
import { migrate } from '../../src/migrate/migrate.ts';
import { oneAddress } from '../../src/postgres/address/database-addresses.ts';
import { startBackend, type Backend } from '../../src/server/backend.ts';
import { collectLog, type LogLine } from '../support/collect-log.ts';

export type Started = { readonly backend: Backend; readonly lines: () => readonly LogLine[] };

/** `before`: runs after the roles exist and before the log is read. */
export async function startOn(
  url: string,
  text: string,
  keys: ApiKeys,
  before: () => Promise<unknown> = async () => {},
): Promise<Started> {
  const loaded = loadConfig({ name: 'svc.yaml', directory: '/tmp', text }, { variables: {} });
  if (!loaded.ok) throw new Error(loaded.mistakes.map((mistake) => mistake.message).join('\n'));
  const { log, lines } = collectLog();
  const backend = await startBackend({
    config: loaded.config,
    database: oneAddress(url),
    keys,
    env: {},
    host: '127.0.0.1',
    port: 0,
    log,
    dev: false,
    migrate: async (owner, config) => {
      await before();
      await migrate({ owner, config, log });
    },
  });
  return { backend, lines };
}

export async function stop(backend: Backend): Promise<void> {
  const stopped = backend.stop();
  backend.skipDrainDelay();
  await stopped;
}
