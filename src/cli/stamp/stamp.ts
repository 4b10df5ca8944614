// `svc stamp`: records the time of the build, so that deployments have an order.
import { Command } from 'commander';
import { z } from 'zod';
import { makeStamp, STAMP_PATH, writeStamp } from '../../deploy/build-stamp.ts';
import { loadProject, requireLocal } from '../project/project.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

const STAMPED = z.strictObject({
  file: z.string(),
  sequence: z.int(),
  commit: z.string().nullable(),
  dirty: z.boolean(),
});

export function stampCommand(terminal: Terminal): Command {
  const command = new Command('stamp')
    .description(`write ${STAMP_PATH} next to svc.yaml, with the time and commit of this build`)
    .option('-c, --config <file>', 'the configuration file')
    .addHelpText(
      'after',
      '\nIn a Dockerfile, so that a cached layer does not keep an old stamp:\n' +
        '  RUN npm ci --omit=dev\n  ARG BUILD\n  RUN npx svc stamp\n\n  docker build --build-arg BUILD=$(date +%s) .',
    );
  return reporting(command, terminal, STAMPED, async (out, { config }: { config?: string }) => {
    const project = await loadProject({ config, mode: 'production', standIns: /./ }, out);
    requireLocal(project, 'svc stamp needs a local file');
    const stamp = await makeStamp(project.directory);
    await writeStamp(project.directory, stamp);
    const commit = stamp.commit === null ? '' : `, commit ${stamp.commit.slice(0, 8)}`;
    out.print(
      `${out.style('green', '✓')} ${STAMP_PATH}: ${stamp.sequence}${commit}${stamp.dirty ? ' with changes' : ''}`,
    );
    return { data: { file: STAMP_PATH, ...stamp } };
  });
}
