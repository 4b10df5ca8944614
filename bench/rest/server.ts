// svc in its own process, so that its processor time and memory are measured apart. Prints its address as JSON.
// BENCH_LOG_LEVEL: level of the request log, which is discarded. Default: no log.
// BENCH_POSTS: number of posts.
import { createWriteStream } from 'node:fs';
import { createLog } from '../../src/log/log.ts';
import { createRestWorld } from '../../test/support/rest-world.ts';
import { createDataset, USER_ID } from './dataset.ts';
import { answerCounts } from './work-counter.ts';

const { BENCH_DATABASE_URL: url, BENCH_LOG_LEVEL: level, BENCH_POSTS: posts } = process.env;
if (!url) throw new Error('BENCH_DATABASE_URL is not set');
const log =
  level === undefined ? undefined : createLog({ level, destination: createWriteStream('/dev/null') });
const world = await createRestWorld({
  url,
  sql: createDataset(posts === undefined ? undefined : Number(posts)),
  poolSize: 20,
  log,
});
const token = await world.token({ sub: USER_ID });
answerCounts();
process.stdout.write(
  `${JSON.stringify({ url: world.restUrl, authenticatorUrl: world.authenticatorUrl, token })}\n`,
);
process.once('SIGTERM', () => {
  void world.close().then(() => process.exit(0));
});
