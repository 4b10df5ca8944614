import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { query } from '../database.ts';
import { SECRET_KEY, type Instance } from '../instance.ts';
import { ask, notesTable } from '../load.ts';
import type { Scenario, Stage } from '../scenario.ts';

/** An image: a folder with a file and the stamp of its build. */
type Image = { readonly config: string };

export const scenario: Scenario = {
  name: 'deployment-order',
  about:
    'A, then B, then A built again: each is applied; an old image of A that starts once more changes nothing',
  async run(stage) {
    const a = notesTable('notes', '\n      - { name: only_a, type: text }');
    const b = notesTable('notes', '\n      - { name: only_b, type: text }');
    const oldA = await image(stage, 'a-1', a);
    await deploy(stage, oldA, 'A', 'only_a');
    await deploy(stage, await image(stage, 'b-2', b), 'B', 'only_b');
    await deploy(stage, await image(stage, 'a-3', a), 'A, built again', 'only_a');
    await deploy(stage, await image(stage, 'b-4', b), 'B, built again', 'only_b');

    const before = await fingerprint(stage.database);
    const old = await start(stage, oldA);
    stage.claim('an old image of A is ready', true);
    stage.claim('and logs the reason', old.output().includes('MIG-403'));
    const ready = await fetch(`${old.url}/ready`, { headers: { apikey: SECRET_KEY } });
    const text = await ready.text();
    stage.claim('and in /ready', text.includes('"schema":"superseded"'), text.slice(0, 120));
    stage.claim('it changed nothing in the catalog', (await fingerprint(stage.database)) === before);
    const read = await ask(old.url, { kind: 'read', path: '/rest/v1/notes?select=id,body' });
    stage.claim('it serves what its file and the database have in common', read.status === 200, read.text);
    await old.stop('SIGKILL');
    const refusing = stage.start({
      machine: 'app1',
      config: oldA.config,
      database: stage.url(),
      arguments: ['--migrate', '--superseded', 'refuse'],
    });
    const code = await refusing.exit();
    stage.claim('with --superseded refuse it ends with 1', code === 1, `exit code ${code}`);
  },
};

/** Builds an image as a pipeline does: the file, and `svc stamp` next to it. */
async function image(stage: Stage, name: string, tables: string): Promise<Image> {
  mkdirSync(join(stage.folder, name), { recursive: true });
  const config = stage.config(tables, '', `${name}/svc.yaml`);
  const command = ['stamp', '--config', config];
  const stamp = stage.start({ machine: 'app1', config, database: stage.url(), command, arguments: [] });
  const code = await stamp.exit();
  if (code !== 0) throw new Error(`svc stamp ended with ${code}: ${stamp.output()}`);
  return { config };
}

async function start(stage: Stage, { config }: Image): Promise<Instance> {
  const instance = stage.start({ machine: 'app1', config, database: stage.url() });
  await instance.whenReady();
  return instance;
}

async function deploy(stage: Stage, of: Image, name: string, column: string): Promise<void> {
  const instance = await start(stage, of);
  const read = await ask(instance.url, { kind: 'read', path: `/rest/v1/notes?select=${column}` });
  stage.claim(`${name} is applied`, read.status === 200, read.text);
  await instance.stop('SIGKILL');
}

/** Everything that a migration could change. */
const fingerprint = async (database: string): Promise<string> =>
  (
    await query<{ text: string }>(
      database,
      `select md5(string_agg(line, ',' order by line)) as text from (
         select attrelid::regclass || '.' || attname || ' ' || attnum || ' ' || atttypid as line
         from pg_attribute join pg_class on pg_class.oid = attrelid where relnamespace = 'public'::regnamespace
         union all select polname || coalesce(pg_get_expr(polqual, polrelid), '') from pg_policy
         union all select oid::text || relname || coalesce(relacl::text, '') from pg_class
         where relnamespace = 'public'::regnamespace) as lines`,
    )
  )[0]?.text ?? '';
