// Opens connections in a separate process that insert single rows as fast as the database accepts them. Started by
// inserts.ts with a connection string, the number of connections, and the owner of every hundredth row. Sends `{
// backends }` once they are connected, and answers each message `{ seconds }` with the written rows.
import pg from 'pg';

/** `cpuMs`: CPU time of this process. `visible`: rows of the owner. */
export type Written = { readonly rows: number; readonly visible: number; readonly cpuMs: number };

const [databaseUrl = '', count = '0', owner = ''] = process.argv.slice(2);
const OTHER_USER = '00000000-0000-4000-8000-000000000000';
const VISIBLE_EVERY = 100;
let written = 0;

const clients = Array.from({ length: Number(count) }, () => new pg.Client({ connectionString: databaseUrl }));
const backends: number[] = [];
for (const client of clients) {
  await client.connect();
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  backends.push(rows[0]?.pid ?? 0);
}
process.on('message', (asked: { seconds: number }) => void write(asked.seconds));
process.send?.({ backends });

async function write(seconds: number): Promise<void> {
  const before = written;
  const cpu = process.cpuUsage();
  const endsAt = performance.now() + seconds * 1000;
  await Promise.all(
    clients.map(async (client) => {
      while (performance.now() < endsAt) {
        written += 1;
        await client.query({
          name: 'insert',
          text: 'insert into public.entries (owner, text) values ($1, $2)',
          values: [written % VISIBLE_EVERY === 0 ? owner : OTHER_USER, 'a line of text'],
        });
      }
    }),
  );
  const { user, system } = process.cpuUsage(cpu);
  const told: Written = {
    rows: written - before,
    visible: Math.floor(written / VISIBLE_EVERY) - Math.floor(before / VISIBLE_EVERY),
    cpuMs: (user + system) / 1000,
  };
  process.send?.(told);
}
