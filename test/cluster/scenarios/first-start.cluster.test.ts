import { query } from '../database.ts';
import { NOTES } from '../load.ts';
import type { Scenario } from '../scenario.ts';

export const scenario: Scenario = {
  name: 'first-start',
  about: 'three instances start at once on an empty database: one migrates, all serve',
  async run(stage) {
    const config = stage.config(NOTES);
    const all = await stage.startThree({ config, database: stage.url() });
    stage.claim('all three are ready', true);
    const [row] = await query<{ runs: string }>(
      stage.database,
      `select count(*) as runs from svc_meta.run`,
    ).catch(() => [{ runs: 'unreadable' }]);
    stage.claim('the schema was applied once', row?.runs === '1', row?.runs);
    const migrated = all.filter(({ output }) => /"applied"|applied the/.test(output())).length;
    stage.note(`instances whose log names an applied migration: ${migrated}`);
  },
};
