// `svc doctor`: looks at everything the service needs, and says what to do where something is amiss.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import type { Config } from '../../config/config.ts';
import type { SecretFile } from '../../config/read/secret-files.ts';
import { secretMask } from '../../lib/secret-mask.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { roleAddresses } from '../../provision/passwords.ts';
import type { Environment } from '../environment.ts';
import { EXIT } from '../exit.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import { openDatabase } from '../migrate/database.ts';
import { readServed, type ReadServed } from '../served-project.ts';
import type { Terminal } from '../terminal.ts';
import { type Finding, type Level, look } from './check.ts';
import * as database from './database.ts';
import * as machine from './machine.ts';
import * as project from './project.ts';
import * as services from './services.ts';

type Options = { config?: string; fix?: boolean };

const EXAMINED = z.strictObject({
  findings: z.array(
    z.strictObject({
      id: z.string(),
      level: z.enum(['ok', 'warning', 'error']),
      says: z.string(),
      repair: z.string().optional(),
    }),
  ),
});

type Tell = (finding: Finding) => void;

/** `mounted`: the files that variables of the environment named. */
export function doctorCommand(terminal: Terminal, mounted: () => readonly SecretFile[]): Command {
  const command = new Command('doctor')
    .description('look at everything that svc needs here, and say what to do; changes nothing without --fix')
    .option('-c, --config <file>', 'the configuration file')
    .option('--fix', 'repair modes of files with secrets, and .gitignore');
  return reporting(command, terminal, EXAMINED, (out, options: Options) => doctor(options, mounted(), out));
}

async function doctor(
  options: Options,
  mounted: readonly SecretFile[],
  terminal: Terminal,
): Promise<Findings<z.infer<typeof EXAMINED>>> {
  const findings = await examine(
    options.config,
    (finding) => terminal.print(render(finding, terminal)),
    mounted,
    options.fix,
  );
  terminal.print(summary(findings));
  return { data: { findings: [...findings] }, exitCode: hasErrors(findings) ? EXIT.problem : 0 };
}

/** Looks at one thing after the other, and tells of each at once. No finding holds a secret. */
export async function examine(
  config: string | undefined,
  onFinding: Tell = () => {},
  mounted: readonly SecretFile[] = [],
  fixes = false,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  let mask = (text: string): string => text;
  const tell: Tell = (finding) => {
    const masked = { ...finding, says: mask(finding.says), repair: finding.repair && mask(finding.repair) };
    findings.push(masked);
    onFinding(masked);
  };

  tell(await look('node', machine.node));
  tell(await look('passwords', machine.passwords));
  tell(await look('images', machine.images));
  tell(await look('memory', machine.memory));
  tell(await look('open-files', machine.openFiles));
  tell(await look('temporary', machine.temporary));

  const read = await readServed({ config }).catch(async (error: unknown) => {
    tell(await look('file', () => Promise.reject(error)));
    return undefined;
  });
  if (read) {
    const { env, source, mode } = read;
    mask = maskOf(env);
    tell(await look('file', project.file(read)));
    tell(await look('keys', project.keys(env, mode)));
    if (source.directory !== undefined) {
      tell(await look('secret-files', project.secretFiles(source.directory, mode), fixes));
      tell(await look('git', project.ignored(source.directory), fixes));
    }
    if (mounted.length > 0) tell(await look('mounted-secrets', project.mountedSecrets(mounted)));
    try {
      await lookAtServices(read, read.loaded.ok ? read.loaded.config : undefined, tell);
    } catch (error) {
      tell(await look('database', () => Promise.reject(error)));
    }
  }
  return findings;
}

/** `config` is undefined where the file has mistakes: the database is looked at all the same. */
async function lookAtServices(
  { env, source }: ReadServed,
  config: Config | undefined,
  tell: Tell,
): Promise<void> {
  const directory = source.directory ?? process.cwd();
  const isServed = databaseAddresses(env) !== undefined;
  if (config) {
    tell(await look('functions', project.functions(config, directory)));
    tell(await look('mail', services.mail(config)));
    if (isServed) tell(await look('base-url', project.baseUrl(config, env)));
  }
  if (!isServed && !existsSync(join(directory, '.svc'))) {
    tell({
      id: 'database',
      level: 'ok',
      says: 'SVC_DATABASE_URL is not set; svc dev makes a database of its own',
    });
    return;
  }
  const opened = await openDatabase(env, directory);
  try {
    const { addresses } = opened;
    const reached = await look('database', database.reach(addresses));
    tell(reached);
    if (reached.level === 'error') return;
    if (!(await database.isPrepared(addresses))) {
      const says = 'svc has not prepared this database yet';
      tell({ id: 'migrations', level: 'warning', says, repair: 'svc serve --migrate' });
      return;
    }
    tell(await look('requests', database.requests(addresses)));
    // As it is: a start would prepare it for this version.
    const owner = new OwnerDatabase({
      address: roleAddresses(addresses, 'svc_owner').direct,
      applicationName: 'svc-doctor',
      max: 2,
      idleTimeoutMs: 5_000,
    });
    try {
      if (config) {
        tell(await look('migrations', database.migrations(config, owner)));
        tell(await look('drift', database.drift(config, owner)));
        tell(await look('realtime', database.realtime(config, owner)));
        tell(await look('storage', services.storage(config, owner)));
      }
      tell(await look('backup', services.backup(owner, env)));
    } finally {
      await owner.close();
    }
  } finally {
    await opened.close();
  }
}

const SECRET_NAME = /KEY|SECRET|TOKEN|PASSWORD|_URL$/;

/** What people paste must not hold what they keep. Addresses of the database are described without their passwords. */
function maskOf(env: Environment): (text: string) => string {
  return secretMask(
    Object.entries(env).flatMap(([name, value]) => {
      if (value === undefined || !SECRET_NAME.test(name)) return [];
      const password = URL.canParse(value) ? decodeURIComponent(new URL(value).password) : '';
      const values = [
        ...(URL.canParse(value) && password === '' ? [] : [value]),
        ...(password === '' ? [] : [password]),
      ];
      return values.map((one) => [one, `[${name}]`] as const);
    }),
  );
}

const hasErrors = (findings: readonly Finding[]): boolean => findings.some(({ level }) => level === 'error');

const MARK: Readonly<Record<Level, readonly [sign: string, style: 'green' | 'yellow' | 'red']>> = {
  ok: ['✓', 'green'],
  warning: ['!', 'yellow'],
  error: ['✗', 'red'],
};

function render({ id, level, says, repair }: Finding, terminal: Terminal): string {
  const [sign, style] = MARK[level];
  const line = `${terminal.style(style, sign)} ${id.padEnd(13)} ${says}`;
  return repair === undefined ? line : `${line}\n${' '.repeat(16)}→ ${repair}`;
}

function summary(findings: readonly Finding[]): string {
  const count = (level: Level): number => findings.filter((one) => one.level === level).length;
  const [errors, warnings] = [count('error'), count('warning')];
  if (errors + warnings === 0) return '\nnothing is amiss';
  return `\n${errors} ${errors === 1 ? 'error' : 'errors'}, ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}`;
}
