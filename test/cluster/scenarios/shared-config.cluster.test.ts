import { SECRET_KEY } from '../instance.ts';
import { ask, notesTable } from '../load.ts';
import { APP_MACHINES, DATABASE_MACHINES } from '../machines.ts';
import type { Scenario, Stage } from '../scenario.ts';
import { seconds, until } from '../until.ts';

const MAIL =
  'providers: { email: { type: resend, api_key: "${MAIL_KEY}", default_from_email: a@example.com } }\n';
const column = (name: string): string => `\n      - { name: ${name}, type: text }`;

export const scenario: Scenario = {
  name: 'shared-config',
  about:
    'three instances with the configuration in the database: one change reaches all, who cannot take it is named',
  async run(stage) {
    await push(stage, 'first', column('one'), '');
    const options = { config: 'database', database: stage.url(DATABASE_MACHINES) };
    const all = APP_MACHINES.map((machine) =>
      stage.start({ ...options, machine, env: machine === 'app3' ? {} : { MAIL_KEY: 're_rig' } }),
    );
    for (const instance of all) await instance.whenReady();

    await push(stage, 'second', column('one') + column('two'), '');
    const pushedAt = Date.now();
    const knows = async (url: string, name: string): Promise<boolean> =>
      (await ask(url, { kind: 'read', path: `/rest/v1/notes?select=${name}` })).status === 200;
    await until('all to serve the change', 20_000, async () => {
      const answers = await Promise.all(all.map(async ({ url }) => await knows(url, 'two')));
      return answers.every(Boolean);
    });
    const took = Date.now() - pushedAt;
    stage.claim('all serve a change within 2 s of the push', took <= 2_000, seconds(took));

    await push(stage, 'third', column('one') + column('two'), MAIL);
    const last = all[2]!;
    const text = await until('the instance without the variable to report it', 20_000, async () => {
      const answer = await fetch(`${last.url}/ready`, { headers: { apikey: SECRET_KEY } });
      const body = await answer.text();
      return answer.status === 200 && body.includes('config_not_taken') ? body : undefined;
    });
    stage.claim('the instance that lacks a variable stays as it is and names it', text.includes('MAIL_KEY'));
    stage.claim('it goes on serving', await knows(last.url, 'two'));
  },
};

async function push(stage: Stage, name: string, columns: string, rest: string): Promise<void> {
  const config = stage.config(notesTable('notes', columns), rest, `${name}.yaml`);
  const done = stage.start({
    machine: 'app1',
    config,
    database: stage.url(DATABASE_MACHINES),
    command: ['config', 'push', config],
    arguments: [],
    env: { MAIL_KEY: 're_rig' },
  });
  const code = await done.exit();
  stage.claim(`the ${name} configuration is pushed`, code === 0, code === 0 ? '' : done.output());
}
