import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { NOTES } from '../load.ts';
import type { Scenario } from '../scenario.ts';

const STORAGE = 'storage: { files: { public: true } }\n';
const MISCONFIGURED = 78;

export const scenario: Scenario = {
  name: 'storage-directories',
  about: 'instances with a directory for files each: the second does not start; with a shared one it does',
  async run(stage) {
    const config = (machine: string, path: string): string => {
      mkdirSync(join(stage.folder, machine), { recursive: true });
      const provider = `providers: { storage: { type: local, local: { path: ${path} } } }\n`;
      return stage.config(NOTES, STORAGE + provider, `${machine}/svc.yaml`);
    };
    const shared = join(stage.folder, 'shared');
    const database = stage.url();
    const first = stage.start({ machine: 'app1', database, config: config('app1', shared) });
    await first.whenReady();
    const alone = stage.start({ machine: 'app2', database, config: config('app2', 'files') });
    const code = await alone.exit();
    stage.claim(
      'an instance with a separate directory does not start',
      code === MISCONFIGURED && alone.output().includes('this one is empty'),
      `exit code ${code}`,
    );
    const second = stage.start({ machine: 'app3', database, config: config('app3', shared) });
    await second.whenReady();
    stage.claim('one with the same directory does', true);
  },
};
