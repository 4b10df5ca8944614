// `svc doctor`: checks everything that the service needs, and explains how to repair what is wrong.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { z } from 'zod';
import type { SecretFile } from '../../config/read/secret-files.ts';
import { secretMask } from '../../lib/secret-mask.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { roleAddresses } from '../../provision/passwords.ts';
import type { Environment } from '../environment.ts';
import { EXIT } from '../exit.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import { openDatabase } from '../migrate/database.ts';
import { readServed, type ReadServed } from '../project/served-project.ts';
import type { Terminal } from '../terminal.ts';
import { type Finding, type Level, runCheck } from './check.ts';
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
      message: z.string(),
      repair: z.string().optional(),
    }),
  ),
});

type Report = (finding: Finding) => void;

/** `mounted`: the files that variables of the environment refer to. */
export function doctorCommand(terminal: Terminal, mounted: () => readonly SecretFile[]): Command {
  const command = new Command('doctor')
    .description('check everything that svc needs, and explain repairs; changes nothing without --fix')
    .option('-c, --config <file>', 'the configuration file')
    .option('--fix', 'repair modes of files with secrets, and .gitignore');
  return reporting(command, terminal, EXAMINED, (out, options: Options) => doctor(options, mounted(), out));
}

async function doctor(
  options: Options,
  mounted: readonly SecretFile[],
  terminal: Terminal,
): Promise<Findings<z.infer<typeof EXAMINED>>> {
  const findings = await examine(options.config, {
    onFinding: (finding) => terminal.print(render(finding, terminal)),
    mounted,
    fixes: options.fix,
  });
  terminal.print(summary(findings));
  return { data: { findings: [...findings] }, exitCode: hasErrors(findings) ? EXIT.problem : 0 };
}

type Examination = {
  readonly onFinding?: Report;
  readonly mounted?: readonly SecretFile[];
  readonly fixes?: boolean | undefined;
  /** `none`: plans are made without reading rows. */
  readonly rows?: 'all' | 'none';
};

/** Runs the checks one after the other and reports each finding immediately. Findings contain no secrets. */
export async function examine(
  config: string | undefined,
  { onFinding = () => {}, mounted = [], fixes = false, rows }: Examination,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  let mask = (text: string): string => text;
  const report: Report = (finding) => {
    const masked = {
      ...finding,
      message: mask(finding.message),
      repair: finding.repair && mask(finding.repair),
    };
    findings.push(masked);
    onFinding(masked);
  };

  report(await runCheck('node', machine.node));
  report(await runCheck('passwords', machine.passwords));
  report(await runCheck('images', machine.images));
  report(await runCheck('memory', machine.memory));
  report(await runCheck('open-files', machine.openFiles));
  report(await runCheck('temporary', machine.temporary));

  const read = await readServed({ config }).catch(async (error: unknown) => {
    report(await runCheck('file', () => Promise.reject(error)));
    return undefined;
  });
  if (read) {
    const { env, source, mode } = read;
    mask = createMask(env);
    report(await runCheck('file', project.file(read)));
    report(await runCheck('keys', project.keys(env, mode)));
    if (source.directory !== undefined) {
      report(await runCheck('secret-files', project.secretFiles(source.directory, mode), fixes));
      report(await runCheck('git', project.ignored(source.directory), fixes));
    }
    if (mounted.length > 0) report(await runCheck('mounted-secrets', project.mountedSecrets(mounted)));
    try {
      await checkServices(read, report, rows);
    } catch (error) {
      report(await runCheck('database', () => Promise.reject(error)));
    }
  }
  return findings;
}

async function checkServices(
  { env, source, loaded }: ReadServed,
  report: Report,
  rows: Examination['rows'],
): Promise<void> {
  // A file with mistakes does not prevent the checks of the database.
  const config = loaded.ok ? loaded.config : undefined;
  const directory = source.directory ?? process.cwd();
  const isServed = databaseAddresses(env) !== undefined;
  if (config) {
    report(await runCheck('functions', project.functions(config, directory)));
    report(await runCheck('mail', services.mail(config)));
    if (isServed) report(await runCheck('base-url', project.baseUrl(config, env)));
  }
  if (!isServed && !existsSync(join(directory, '.svc'))) {
    report({
      id: 'database',
      level: 'ok',
      message: 'SVC_DATABASE_URL is not set; svc dev creates its own database',
    });
    return;
  }
  const opened = await openDatabase(env, directory);
  try {
    const { addresses } = opened;
    const reached = await runCheck('database', database.reach(addresses));
    report(reached);
    if (reached.level === 'error') return;
    if (!(await database.isPrepared(addresses))) {
      const message = 'svc has not prepared this database yet';
      report({ id: 'migrations', level: 'warning', message, repair: 'svc serve --migrate' });
      return;
    }
    report(await runCheck('requests', database.requests(addresses)));
    // Opens the database directly: a start would prepare it for this version.
    const owner = new OwnerDatabase({
      address: roleAddresses(addresses, 'svc_owner').direct,
      applicationName: 'svc-doctor',
      max: 2,
      idleTimeoutMs: 5_000,
    });
    try {
      if (config) {
        report(await runCheck('migrations', database.migrations(config, owner, rows)));
        report(await runCheck('drift', database.drift(config, owner, rows)));
        report(await runCheck('realtime', database.realtime(config, owner)));
        report(await runCheck('storage', services.storage(config, owner)));
      }
      report(await runCheck('public-functions', database.publicFunctions(owner)));
      report(await runCheck('mailboxes', database.mailboxes(owner)));
      report(await runCheck('backup', services.backup(owner, env)));
    } finally {
      await owner.close();
    }
  } finally {
    await opened.close();
  }
}

const SECRET_NAME = /KEY|SECRET|TOKEN|PASSWORD|_URL$/;

/**
 * Returns a mask for secrets, because people paste the output. Database addresses are shown without their
 * passwords.
 */
function createMask(env: Environment): (text: string) => string {
  return secretMask(
    Object.entries(env).flatMap(([name, value]) => {
      if (value === undefined || !SECRET_NAME.test(name)) return [];
      const password = URL.canParse(value) ? decodeURIComponent(new URL(value).password) : '';
      const values = [
        ...(URL.canParse(value) && password === '' ? [] : [value]),
        ...(password === '' ? [] : [password]),
      ];
      return values.map((secret) => [secret, `[${name}]`] as const);
    }),
  );
}

const hasErrors = (findings: readonly Finding[]): boolean => findings.some(({ level }) => level === 'error');

const MARK: Readonly<Record<Level, readonly [sign: string, style: 'green' | 'yellow' | 'red']>> = {
  ok: ['✓', 'green'],
  warning: ['!', 'yellow'],
  error: ['✗', 'red'],
};

function render({ id, level, message, repair }: Finding, terminal: Terminal): string {
  const [sign, style] = MARK[level];
  const line = `${terminal.style(style, sign)} ${id.padEnd(13)} ${message}`;
  return repair === undefined ? line : `${line}\n${' '.repeat(16)}→ ${repair}`;
}

function summary(findings: readonly Finding[]): string {
  const count = (level: Level): number => findings.filter((finding) => finding.level === level).length;
  const [errors, warnings] = [count('error'), count('warning')];
  if (errors + warnings === 0) return '\nno problems found';
  return `\n${errors} ${errors === 1 ? 'error' : 'errors'}, ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}`;
}
