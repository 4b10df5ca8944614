// `svc functions new <name>` and `svc functions list`.
import { existsSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { Command, Option } from 'commander';
import { z } from 'zod';
import { createFunction, type StarterOptions } from '../../functions/sources/starter.ts';
import { readRunningServer } from '../dev/running-server.ts';
import { listenPort } from '../environment.ts';
import { Problem } from '../../problem/problem.ts';
import { EXIT, failure } from '../exit.ts';
import { loadProject, readProject } from '../project/project.ts';
import { asJson, type JsonFindings } from '../report/json-report.ts';
import { mistakeProblems } from '../report/mistake-problems.ts';
import { describesJson, reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

type NewOptions = Pick<StarterOptions, 'language' | 'authRequired'> & { config: string };

export function functionsCommand(terminal: Terminal): Command {
  return new Command('functions')
    .description('create and list code functions')
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
    .description('create a handler and declare it in svc.yaml')
    .argument('<name>', 'part of the URL: /functions/v1/<name>')
    .option('-c, --config <file>', 'the configuration file', 'svc.yaml')
    .addOption(
      new Option('-l, --language <language>', 'language of the handler').choices(['js', 'ts']).default('js'),
    )
    .option('--auth-required', 'reject callers who are not signed in with 401');
  return reporting(
    command,
    terminal,
    MADE,
    async (out, name: string, { config, language, authRequired }: NewOptions) => {
      const file = resolve(config);
      if (!existsSync(file)) {
        const hint = 'Create one with `svc init`.';
        throw failure(EXIT.badConfiguration, `there is no file ${config}`, hint);
      }
      const written = createdFiles({ language, authRequired, file, name });
      for (const path of written) out.print(`wrote ${path}`);
      out.print(`declared functions.${name} in ${config}\n`);
      const running = readRunningServer(dirname(file));
      const url = `${running ?? `http://localhost:${await declaredPort(config)}`}/functions/v1/${name}`;
      out.print(
        running === undefined ? `With \`svc dev\` running:\n  curl ${url}` : `Try it:\n  curl ${url}`,
      );
      return { data: { name, url, written } };
    },
  );
}

/** Creates the function. An invalid or existing name is a mistake of the command line. */
function createdFiles(options: StarterOptions): string[] {
  try {
    return createFunction(options);
  } catch (error) {
    if (!(error instanceof Problem) || !['bad_name', 'already_there'].includes(error.code)) throw error;
    throw failure(EXIT.misuse, error.message, error.hint);
  }
}

/** Returns the port of `svc dev` without --port. Ignores mistakes in the file. */
async function declaredPort(config: string): Promise<number> {
  const { env, loaded } = await readProject({ config, mode: 'development', standIns: /./ });
  return loaded.ok ? listenPort(undefined, env, loaded.config) : 8080;
}

function listCommand(terminal: Terminal): Command {
  return describesJson(new Command('list'), LISTED)
    .description('list the declared functions')
    .option('-c, --config <file>', 'the configuration file')
    .option('--json', 'print the functions as JSON')
    .action(async (options: { config?: string; json?: boolean }) => {
      if (options.json) {
        await asJson('functions list', terminal, async () => await listAsJson(options));
        return;
      }
      const { config } = await loadProject({ ...options, mode: 'development' }, terminal);
      if (config.functions.length === 0) {
        terminal.print('No code functions are declared. Create one with `svc functions new <name>`.');
      }
      for (const { name, file, http, authRequired, timeoutMs } of config.functions) {
        const access = !http ? 'schedules only' : authRequired ? 'signed-in callers' : 'public';
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
