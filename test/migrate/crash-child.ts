// One migrating process that a test may kill: runs the file of the second argument, and ends itself with SIGKILL
// before the n-th statement when a third one is given. Prints how many statements there were.
import { readFileSync } from 'node:fs';
import { silentLog } from '../../src/log/log.ts';
import { migrate } from '../../src/migrate/migrate.ts';
import { configOf } from './config-of.ts';

const [url = '', file = '', killAt] = process.argv.slice(2);
let statements = 0;
const outcome = await migrate({
  owner: url,
  config: configOf(readFileSync(file, 'utf8')),
  log: silentLog,
  policy: { allowRollback: true, maxWriteBlockMs: 0 },
  ...(killAt === undefined
    ? {}
    : {
        onStatement: () => {
          statements += 1;
          if (statements === Number(killAt)) process.kill(process.pid, 'SIGKILL');
        },
      }),
});
if (outcome.kind === 'applied') await outcome.background;
process.stdout.write(
  JSON.stringify({
    kind: outcome.kind,
    statements,
    problems: outcome.kind === 'refused' ? outcome.problems : [],
  }),
);
