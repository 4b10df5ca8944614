// `svc bundle`: functions and their locked dependencies in one archive, for `svc serve`. Writes where it is into
// the file, so that what is deployed is what was built.
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { editText } from '../config/edit/edit.ts';
import { makeStamp, STAMP_PATH, writeStamp } from '../deploy/build-stamp.ts';
import { buildBundle } from '../functions/sources/bundle.ts';
import { storeBundle } from '../functions/sources/bundle-store.ts';
import { createLog } from '../log/log.ts';
import { modeOption, type ModeOption } from './mode-option.ts';
import { loadProject, requireLocal } from './project.ts';
import { type Findings, reporting } from './report/reporting.ts';
import type { Terminal } from './terminal.ts';

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
    .option('-o, --out <place>', 'a file, or s3://bucket/key', 'dist/functions.tgz')
    .option('--no-verify', 'do not load the handlers from the bundle')
    .option('--no-write', 'print functions_bundle instead of writing it into the file')
    .addHelpText(
      'after',
      '\nExamples:\n  svc bundle\n  svc bundle --out s3://releases/todo/functions.tgz\n\n' +
        'Credentials for s3:// are those of providers.storage in svc.yaml, or the AWS variables.',
    );
  return reporting(command, terminal, BUNDLED, (out, options: BundleCommandOptions) => bundle(options, out));
}

async function bundle(
  options: BundleCommandOptions,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof BUNDLED>>> {
  const project = await loadProject(
    // Building needs no secret: a variable that is only for running gets a value instead of an error.
    { config: options.config, mode: options.mode ?? 'production', standIns: /^SVC_ENV_/ },
    terminal,
  );
  requireLocal(project, 'A bundle is made where the sources are');
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
    // What goes with this bundle is meant to be deployed now.
    await writeStamp(directory, await makeStamp(directory));
    terminal.print(`  ${STAMP_PATH} written beside it`);
    return { data };
  } finally {
    await built.close();
  }
}
