import { query } from '../database.ts';
import { countWrites, Notes, notesTable, type Call } from '../load.ts';
import { PLAIN, type Scenario } from '../scenario.ts';
import { seconds } from '../until.ts';

const column = (name: string): string => `\n      - { name: ${name}, type: text }`;

export const scenario: Scenario = {
  name: 'schema-rollout',
  about: 'a file with other columns is rolled over three instances behind a plain balancer: no request fails',
  async run(stage) {
    const total = stage.size(4_000, 20_000);
    const options = { database: stage.url() };
    const all = [
      ...(await stage.startThree({
        ...options,
        config: stage.config(notesTable('notes', column('extra_0'))),
      })),
    ];
    const notes = new Notes(stage.folder);
    const load = stage.load({ urls: [PLAIN], clients: 16, next: everyShape(notes), pause: 5 });
    await load.answered(300);
    const startedAt = Date.now();
    let version = 0;
    do {
      // The file adds one column and removes another, as in a deployment with a new version of the clients.
      version += 1;
      const config = stage.config(notesTable('notes', column(`extra_${version}`)), '', `svc-${version}.yaml`);
      for (const [at, instance] of all.entries()) {
        await instance.stop();
        all[at] = stage.start({ ...options, config, machine: instance.machine });
        await all[at].whenReady();
        await stage.untilBalanced();
      }
    } while (load.answers.length < total);
    await load.stop();
    stage.note(
      `${load.answers.length} requests in ${seconds(Date.now() - startedAt)}, ${version} files over three instances`,
    );
    stage.note(load.summary());
    stage.claim(
      'no request failed',
      load.failed.length === 0,
      `${load.failed.length} of ${load.answers.length} ${load.failed
        .slice(0, 3)
        .map(
          ({ call, status, text, wrong }) =>
            `${call.method ?? call.kind} ${call.path} ${status} ${text} ${wrong ?? ''}`,
        )
        .join('; ')}`,
    );
    const columns = await query<{ name: string }>(
      stage.database,
      `select column_name as name from information_schema.columns where table_name = 'notes' and column_name = $1`,
      [`extra_${version}`],
    );
    stage.claim('the last file is applied', columns.length === 1);
    const { acknowledged, lost } = await countWrites(stage.database, [load]);
    stage.claim('no acknowledged write is lost', lost.length === 0, `${lost.length} of ${acknowledged}`);
  },
};

/** Requests that name their columns, and requests for all columns, which change during the rollout. */
function everyShape(notes: Notes): (number: number) => Call {
  const next = notes.next(3);
  const checkBody = (id: string) => (text: string) =>
    text.includes(`"body":"note ${id}"`) ? undefined : `note ${id} was read as ${text.slice(0, 120)}`;
  return (number) => {
    const call = next(number);
    if (number % 3 > 0) return call;
    if (call.kind === 'write') return { ...call, headers: { prefer: 'return=representation' } };
    const id = /id=eq\.([^&]+)/.exec(call.path)?.[1] ?? '';
    return { ...call, path: `/rest/v1/notes?id=eq.${id}`, wrong: checkBody(id) };
  };
}
