// A process that starts the development PostgreSQL of a folder and reports the result to its parent, for tests with two
// users, two starters, or a killed starter. Stops gracefully on the message `stop`, exits at once on `exit`.
import { startEmbeddedPostgres } from '../../../src/embedded-postgres/embedded-postgres.ts';
import { silentLog } from '../../../src/log/log.ts';
import { Problem } from '../../../src/problem/problem.ts';

const [dir = ''] = process.argv.slice(2);
const report = (message: object) =>
  new Promise((sent) => (process.send ? process.send(message, undefined, {}, sent) : sent(undefined)));

try {
  const server = await startEmbeddedPostgres({ dir, log: silentLog });
  process.on('message', (message) => {
    if (message === 'exit') process.exit(3);
    void server.stop().then(() => process.exit(0));
  });
  await report({ kind: 'started', url: server.url, pid: server.pid, adopted: server.adopted });
} catch (error) {
  const { code, message, details, hint } =
    error instanceof Problem ? error : new Problem('fault', 500, String(error));
  await report({ kind: 'refused', code, message, details, hint });
  process.exit(1);
}
