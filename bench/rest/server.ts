// Our server in a process of its own, so that its CPU and memory can be told apart. Prints where it listens.
import { createRestWorld } from '../../test/support/rest-world.ts';
import { DATASET, USER_ID } from './dataset.ts';

const url = process.env['BENCH_DATABASE_URL'];
if (!url) throw new Error('BENCH_DATABASE_URL is not set');
const world = await createRestWorld({ url, sql: DATASET, poolSize: 20 });
const token = await world.token({ sub: USER_ID });
process.stdout.write(
  `${JSON.stringify({ url: world.restUrl, authenticatorUrl: world.authenticatorUrl, token })}\n`,
);
process.once('SIGTERM', () => {
  void world.close().then(() => process.exit(0));
});
