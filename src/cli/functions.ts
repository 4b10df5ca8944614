// `svc functions new <name>` and `svc functions list`.
import { existsSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { z } from 'zod';
import { createFunction, type StarterOptions } from '../functions/sources/starter.ts';
import { listenPort } from './environment.ts';
import { Problem } from '../problem/problem.ts';
import { EXIT, failure } from './exit.ts';
import { loadProject, readProject } from './project.ts';
import { asJson, type JsonFindings } from './report/json-report.ts';
import { mistakeProblems } from './report/mistake-problems.ts';
import { describesJson, reporting } from './report/reporting.ts';
import type { Terminal } from './terminal.ts';

type NewOptions = Pick<StarterOptions, 'language' | 'authRequired'> & { config: string };

export function functionsCommand(terminal: Terminal): Command {
  return new Command('functions')
    .description('write and list code functions')
    .addCommand(newCommand(terminal))
    .addCommand(listCommand(terminal));
}

const MADE = z.strictObject({ name: z.string(), url: z.string(), written: z.array(z.string()) });

const LISTED = z.strictObject({
  functions: z.array(
    z.strictObject({
      name: z.string(),
      file: z.string(),
      auth_required: z.boolean(),
      timeout_ms: z.number(),
    }),
  ),
});

function newCommand(terminal: Terminal): Command {
  const command = new Command('new')
    .description('write a first handler and declare it in svc.yaml')
    .argument('<name>', 'part of the URL: /functions/v1/<name>')
    .option('-c, --config <file>', 'the configuration file', 'svc.yaml')
    .addOption(new Option('-l, --language <language>', 'of the handler').choices(['js', 'ts']).default('js'))
    .option('--auth-required', 'answer 401 to callers who are not signed in');
  return reporting(
    command,
    terminal,
    MADE,
    async (out, name: string, { config, language, authRequired }: NewOptions) => {
      const file = resolve(config);
      if (!existsSync(file)) {
        const hint = 'Write a first one with `svc init`.';
        throw failure(EXIT.badConfiguration, `there is no file ${config}`, hint);
      }
      const written = createdFiles({ language, authRequired, file, name });
      for (const path of written) out.print(`wrote ${path}`);
      out.print(`declared functions.${name} in ${config}\n`);
      const port = await declaredPort(config);
      const url = `http://localhost:${port}/functions/v1/${name}`;
      out.print(`With \`svc dev\` running:\n  curl ${url}`);
      return { data: { name, url, written } };
    },
  );
}

/** A name that cannot be, or is taken, is a mistake of the command line. */
function createdFiles(options: StarterOptions): string[] {
  try {
    return createFunction(options);
  } catch (error) {
    if (!(error instanceof Problem) || !['bad_name', 'already_there'].includes(error.code)) throw error;
    throw failure(EXIT.misuse, error.message, error.hint);
  }
}

/** Where `svc dev` listens without --port; what is wrong with the file otherwise is not said here. */
async function declaredPort(config: string): Promise<number> {
  const { env, loaded } = await readProject({ config, mode: 'development', standIns: /./ });
  return loaded.ok ? listenPort(undefined, env, loaded.config) : 8080;
}

function listCommand(terminal: Terminal): Command {
  return describesJson(new Command('list'), LISTED)
    .description('list the declared functions')
    .option('-c, --config <file>', 'the configuration file')
    .option('--json', 'print them as JSON')
    .action(async (options: { config?: string; json?: boolean }) => {
      if (options.json) {
        await asJson('functions list', terminal, async () => await listAsJson(options));
        return;
      }
      const { config } = await loadProject({ ...options, mode: 'development' }, terminal);
      if (config.functions.length === 0) {
        terminal.print('No code functions are declared. Make a first one with `svc functions new <name>`.');
      }
      for (const { name, file, authRequired, timeoutMs } of config.functions) {
        const access = authRequired ? 'signed-in callers' : 'public';
        terminal.print(`${name.padEnd(24)} ${access.padEnd(18)} ${`${timeoutMs / 1000}s`.padEnd(6)} ${file}`);
      }
    });
}

async function listAsJson({
  config,
}: {
  config?: string;
}): Promise<JsonFindings<z.infer<typeof LISTED> | null>> {
  const { source, loaded } = await readProject({ config, mode: 'development' });
  const name = source.directory === undefined ? source.name : relative(process.cwd(), source.name);
  if (!loaded.ok) {
    const problems = mistakeProblems(loaded.mistakes, name);
    return { data: null, problems, exitCode: EXIT.badConfiguration };
  }
  const functions = loaded.config.functions.map((fn) => ({
    name: fn.name,
    file: fn.file,
    auth_required: fn.authRequired,
    timeout_ms: fn.timeoutMs,
  }));
  return { data: { functions }, problems: mistakeProblems(loaded.warnings, name) };
}
