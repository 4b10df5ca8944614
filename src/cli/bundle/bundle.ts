// `svc bundle`: packs functions and their locked dependencies into one archive for `svc serve`. Writes the location
// into the file, so that exactly the built archive is deployed.
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { editText } from '../../config/edit/edit.ts';
import { makeStamp, STAMP_PATH, writeStamp } from '../../deploy/build-stamp.ts';
import { buildBundle } from '../../functions/sources/bundle.ts';
import { storeBundle } from '../../functions/sources/bundle-store.ts';
import { createLog } from '../../log/log.ts';
import { modeOption, type ModeOption } from '../project/mode-option.ts';
import { loadProject, requireLocal } from '../project/project.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

type BundleCommandOptions = ModeOption & { config?: string; out: string; verify: boolean; write: boolean };

const BUNDLED = z.strictObject({
  functions_bundle: z.string(),
  sha256: z.string(),
  bytes: z.int(),
  files: z.int(),
  written: z.boolean(),
});

export function bundleCommand(terminal: Terminal): Command {
  const command = new Command('bundle')
    .description('pack the code functions and their locked dependencies for `svc serve`')
    .option('-c, --config <file>', 'the configuration file')
    .addOption(modeOption('production'))
    .option('-o, --out <place>', 'destination: a file, or s3://bucket/key', 'dist/functions.tgz')
    .option('--no-verify', 'do not load the handlers from the bundle')
    .option('--no-write', 'print functions_bundle instead of writing it into the file')
    .addHelpText(
      'after',
      '\nExamples:\n  svc bundle\n  svc bundle --out s3://releases/todo/functions.tgz\n\n' +
        'The credentials for s3:// come from providers.storage in svc.yaml, or from the AWS variables.',
    );
  return reporting(command, terminal, BUNDLED, (out, options: BundleCommandOptions) => bundle(options, out));
}

async function bundle(
  options: BundleCommandOptions,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof BUNDLED>>> {
  const project = await loadProject(
    // Building needs no secrets, so a variable that is only used at run time gets a placeholder instead of an
    // error.
    { config: options.config, mode: options.mode ?? 'production', standIns: /^SVC_ENV_/ },
    terminal,
  );
  requireLocal(project, 'svc bundle needs the sources');
  const { config, env, directory, source } = project;
  const built = await buildBundle({
    directory,
    functions: config.functions,
    env,
    log: createLog({ level: 'error' }),
    verify: options.verify,
  });
  try {
    const place = { directory, provider: config.providers.storage };
    const pointer = await storeBundle(built.archive, built.sha256, options.out, place);
    const size = `${(built.bytes / 1024).toFixed(0)} KB, ${built.files} files`;
    terminal.print(`${terminal.style('green', '✓')} ${options.out} (${size})\n  sha256 ${built.sha256}`);
    const { sha256, bytes, files } = built;
    const data = { functions_bundle: pointer, sha256, bytes, files, written: options.write };
    if (!options.write) {
      terminal.print(`functions_bundle: ${JSON.stringify(pointer)}`);
      return { data };
    }
    const file = resolve(source);
    const text = readFileSync(file, 'utf8');
    writeFileSync(file, editText(text, [{ kind: 'set', path: ['functions_bundle'], value: pointer }]));
    terminal.print(`  functions_bundle written to ${source}`);
    // The stamp makes the state that belongs to this bundle the newest deployment.
    await writeStamp(directory, await makeStamp(directory));
    terminal.print(`  ${STAMP_PATH} written next to it`);
    return { data };
  } finally {
    await built.close();
  }
}
