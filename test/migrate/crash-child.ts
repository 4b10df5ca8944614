// A migrating process that a test can kill. Arguments: URL, file, n, mode. It applies the file and kills itself with
// SIGKILL before statement n. With mode `wait` it reports instead that it has reached step n outside the main
// transaction, and continues after input. Prints the number of statements.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { silentLog } from '../../src/log/log.ts';
import { migrate } from '../../src/migrate/migrate.ts';
import { OwnerDatabase } from '../../src/postgres/owner-database.ts';
import type { StatementStep } from '../../src/migrate/apply/settings.ts';
import { parseConfig } from './parse-config.ts';
import { parseAddress } from '../../src/postgres/address/parse-address.ts';

const [url = '', file = '', killAt, mode] = process.argv.slice(2);
let statements = 0;

async function stop(step: StatementStep): Promise<void> {
  if (mode === 'wait' && (step.lane === 'metadata' || step.lane === 'cutover')) return;
  statements += 1;
  if (statements !== Number(killAt)) return;
  if (mode !== 'wait') process.kill(process.pid, 'SIGKILL');
  process.stdout.write(`at ${step.summary}\n`);
  await once(process.stdin, 'data');
}

const owner = new OwnerDatabase({
  address: parseAddress(url),
  applicationName: 'svc-migrate',
  max: 3,
  idleTimeoutMs: 10_000,
});
const outcome = await migrate({
  owner,
  config: parseConfig(readFileSync(file, 'utf8')),
  log: silentLog,
  policy: { allowRollback: true, maxWriteBlockMs: 0 },
  onStatement: killAt === undefined ? undefined : stop,
});
if (outcome.kind === 'applied') await outcome.background;
await owner.close();
process.stdin.destroy();
process.stdout.write(
  JSON.stringify({
    kind: outcome.kind,
    statements,
    problems: outcome.kind === 'refused' ? outcome.problems : [],
  }),
);
