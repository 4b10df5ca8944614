// `svc deploy`: sends the configuration and the sources to a server, which builds and starts them and
// switches to them.
// `svc receive`: runs that server.
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import { editText } from '../../config/edit/edit.ts';
import { DeployClient } from '../../deploy/api.ts';
import { makeStamp } from '../../deploy/build-stamp.ts';
import { Receiver } from '../../deploy/receiver.ts';
import { archiveSources } from '../../deploy/source-archive.ts';
import { ownFile } from '../../lib/package-files.ts';
import { createLog } from '../../log/log.ts';
import { logSettings, trustedProxies, parsePort, requireDatabase, requireKeys } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { modeOption, type ModeOption } from '../project/mode-option.ts';
import { loadProject, requireLocal } from '../project/project.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import { untilStopped } from '../signals.ts';
import type { Terminal } from '../terminal.ts';

const TOKEN_VARIABLE = 'SVC_DEPLOY_TOKEN';

const DEPLOYED = z.strictObject({ id: z.string(), project: z.string(), url: z.string(), files: z.int() });

export function deployCommand(terminal: Terminal): Command {
  const command = new Command('deploy')
    .description('deploy svc.yaml and the functions to a server')
    .option('-c, --config <file>', 'the configuration file')
    .addOption(modeOption('production'))
    .option('--to <url>', 'URL of the server (default: SVC_DEPLOY_URL)')
    .addHelpText(
      'after',
      `\nThe server runs \`svc receive\` and shares ${TOKEN_VARIABLE} with you. Example:\n` +
        `  ${TOKEN_VARIABLE}=… svc deploy --to https://api.example.com`,
    );
  return reporting(command, terminal, DEPLOYED, (out, options: DeployOptions) => deploy(options, out));
}

type DeployOptions = ModeOption & { config?: string; to?: string };

async function deploy(
  options: DeployOptions,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof DEPLOYED>>> {
  const project = await loadProject(
    // The server has the values of variables. Here the file is only checked.
    { config: options.config, mode: options.mode ?? 'production', standIns: /./ },
    terminal,
  );
  requireLocal(project, 'svc deploy needs the sources');
  const { config, directory, source, files } = project;
  const to = options.to ?? process.env['SVC_DEPLOY_URL'];
  const token = process.env[TOKEN_VARIABLE];
  if (!to || !token) {
    const missing = to ? TOKEN_VARIABLE : 'the server (--to or SVC_DEPLOY_URL)';
    throw failure(
      EXIT.badConfiguration,
      `${missing} is not set`,
      'The server runs `svc receive` with the same SVC_DEPLOY_TOKEN; `svc deploy --help` has an example.',
    );
  }
  const client = new DeployClient(to, token);
  const main = resolve(source);
  const archive = await archiveSources(config, directory, files, await makeStamp(directory));
  try {
    let projectId = config.project.cloudProjectId;
    if (projectId === undefined) {
      projectId = await client.createProject(config.project.name ?? basename(directory));
      const path = ['project', 'cloud', 'project_id'];
      writeFileSync(main, editText(readFileSync(main, 'utf8'), [{ kind: 'set', path, value: projectId }]));
      terminal.print(`project ${projectId} written to ${source}`);
    }
    if (project.overlay !== undefined) terminal.print(`with ${project.overlay}`);
    terminal.print(`uploading ${archive.paths.length} files, ${Math.ceil(archive.bytes / 1024)} KB`);
    const id = await client.upload(projectId, archive.file, archive.sha256);
    const end = await client.follow(projectId, id, (line) => terminal.print(`  ${line}`));
    if (end.status === 'failed') {
      throw failure(
        EXIT.problem,
        `the deployment failed: ${end.message ?? 'no reason was given'}`,
        end.live === undefined
          ? 'No release has been live on this server yet, so nothing is being served.'
          : 'The previous release is still live.',
      );
    }
    terminal.print(`${terminal.style('green', '✓')} ${id} is live at ${to}`);
    return { data: { id, project: projectId, url: to, files: archive.paths.length } };
  } finally {
    await archive.close();
  }
}

type ReceiveOptions = { dir: string; port: number; host: string };

export function receiveCommand(terminal: Terminal): Command {
  return new Command('receive')
    .description('receive deployments from `svc deploy` and serve them')
    .option('-d, --dir <directory>', 'folder of the releases', 'svc-releases')
    .option('-p, --port <port>', 'listen port', parsePort, 8080)
    .option('--host <address>', 'listen address', '0.0.0.0')
    .addHelpText(
      'after',
      `\nNeeds ${TOKEN_VARIABLE} and the variables of \`svc serve\`: SVC_DATABASE_URL, the keys, ` +
        'SVC_ENV_* of functions.',
    )
    .action(async (options: ReceiveOptions) => await receive(options, terminal));
}

async function receive(options: ReceiveOptions, terminal: Terminal): Promise<void> {
  const stopped = untilStopped(['SIGINT', 'SIGTERM']);
  const { [TOKEN_VARIABLE]: token = '', ...env } = process.env;
  requireKeys(env);
  requireDatabase(env);
  const log = createLog(logSettings(env, 'json', terminal));
  const receiver = await Receiver.open({
    directory: resolve(options.dir),
    token,
    env,
    // The proxy that terminates TLS usually runs on this machine.
    trustedProxies: ['loopback', ...trustedProxies(env, false)],
    launcher: ownFile('bin/svc.js'),
    log,
    onOutput: (text) => terminal.print(text.replace(/\n$/, '')),
  });
  const port = await receiver.listen(options.port, options.host);
  log.info({ port, project: receiver.projectId, live: receiver.liveRelease }, 'receiving deployments');

  await stopped;
  await receiver.close();
}
