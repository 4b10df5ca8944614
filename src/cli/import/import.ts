// `svc import supabase`: moves a Supabase project into the database of SVC_DATABASE_URL, stage by stage.
import { existsSync } from 'node:fs';
import { Command, Option } from 'commander';
import { z } from 'zod';
import { environmentSecrets, Keyring } from '../../identity/keyring.ts';
import { openBoxes } from '../../auth/auth-context.ts';
import { listChanges, type Changed } from '../../import/changes.ts';
import { copy, type CopyOptions } from '../../import/copy.ts';
import { type DumpOptions, forgetDump, type Refused, restoreDump } from '../../import/dump.ts';
import { convertFunctions, type Converted } from '../../import/edge/convert.ts';
import { factorsLeft, readFactors, type Factor } from '../../import/factors.ts';
import { copyFiles } from '../../import/files.ts';
import { abandon, cutOver, verify } from '../../import/finish.ts';
import { readSourceKeys, type SourceKeys } from '../../import/encrypted-value.ts';
import type { Changes } from '../../import/write-users.ts';
import { prepare } from '../../import/prepare.ts';
import { makeReport, NAMED, readTarget, type Line, type Report } from '../../import/report.ts';
import { checkSource, readSource } from '../../import/source.ts';
import type { DatabaseAddress } from '../../postgres/address/database-address.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { parseAddress } from '../../postgres/address/parse-address.ts';
import { requireDatabase, requireKeys, type Environment } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { givePulled } from '../migrate/pull.ts';
import { PULLED } from '../migrate/results.ts';
import { loadProject } from '../project.ts';
import { type Findings, reporting } from '../report/reporting.ts';
import { type BytesOptions, bytesOf, withBytes } from './bytes-options.ts';
import type { Terminal } from '../terminal.ts';

type SourceOptions = { from?: string };

const LINES = z.array(
  z.strictObject({ what: z.string(), count: z.number().optional(), why: z.string().optional() }),
);
const REPORT = z.strictObject({ moves: LINES, decide: LINES, stays: LINES });
const CHANGES = z.strictObject({
  changes: z.array(z.strictObject({ kind: z.string(), added: z.int(), changed: z.int(), removed: z.int() })),
});
/** With the second factors that stay behind, by name. */
const COPIED = CHANGES.extend({ factorsLeft: z.array(z.string()) });
const FILES = z.strictObject({
  copied: z.int(),
  unchanged: z.int(),
  removed: z.int(),
  missing: z.array(z.strictObject({ name: z.string(), why: z.string() })),
  unproven: z.array(z.string()),
});
const CONVERTED = z.strictObject({
  functions: z.array(z.strictObject({ name: z.string(), authRequired: z.boolean() })).readonly(),
  variables: z.array(z.string()).readonly(),
  byHand: z.array(z.strictObject({ name: z.string(), reasons: z.array(z.string()).readonly() })).readonly(),
  dependencies: z.record(z.string(), z.string()),
});
const VERIFIED = z.strictObject({ differences: z.array(z.string()) });
const ABANDONED = z.strictObject({ abandoned: z.boolean() });
const FORGOTTEN = z.strictObject({ forgotten: z.boolean() });
const CHANGED = z.strictObject({
  tables: z.array(
    z.strictObject({ table: z.string(), inserted: z.int(), updated: z.int(), deleted: z.int() }),
  ),
  directory: z.string().nullable(),
});

const SOURCE_VARIABLE = 'SVC_IMPORT_SOURCE_URL';
/** Where the operator of the source has switched encryption in its database on. */
const KEYS_VARIABLE = 'SVC_IMPORT_ENCRYPTION_KEYS';

/** `environment` is read when a command runs. */
export function importCommand(terminal: Terminal, environment: () => Environment): Command {
  const supabase = new Command('supabase').description('move a Supabase project into SVC_DATABASE_URL');
  supabase.addCommand(
    reporting(
      withSource('report', 'what would move, what stays behind and why; changes nothing'),
      terminal,
      REPORT,
      async (out, options: SourceOptions) => {
        const env = environment();
        const report = await readReport(await sourceAddress(options, env, out), env);
        out.print(describeReport(report));
        const { moves, decide, stays } = report;
        return { data: { moves: [...moves], decide: [...decide], stays: [...stays] } };
      },
    ),
    { isDefault: true },
  );
  supabase.addCommand(
    reporting(
      withSource(
        'prepare',
        'tables, policies, functions and buckets of the source as svc.yaml; changes nothing there',
      )
        .option('--out <file>', 'where to write it; otherwise it is printed')
        .option('--force', 'write over a file that says something else'),
      terminal,
      PULLED,
      async (out, options: SourceOptions & { out?: string; force?: true }) =>
        await givePulled(await prepare(await sourceAddress(options, environment(), out)), options, out),
    ),
  );
  supabase.addCommand(
    reporting(
      withSource('copy', 'take over what differs from the source; repeat it as often as you like'),
      terminal,
      COPIED,
      async (out, options: SourceOptions) => {
        const { changes, left } = await onBoth(options, environment(), out, async (both) => ({
          changes: await copy(both),
          left: await readFactorsLeft(both),
        }));
        out.print([...changes.map(describeChanges), ...describeLeft(left)].join('\n'));
        return { data: { changes: [...changes], factorsLeft: left.map(({ name }) => name) } };
      },
    ),
  );
  supabase.addCommand(
    reporting(
      withBytes(
        withSource('files', 'copy the files of all declared buckets; repeat it as often as you like').option(
          '-c, --config <file>',
          'the configuration file',
        ),
      ),
      terminal,
      FILES,
      (out, options: FilesOptions) => takeFiles(options, environment(), out),
    ),
  );
  supabase.addCommand(
    reporting(
      new Command('functions')
        .description('edge functions as code functions under functions/, declared in svc.yaml')
        .argument('<directory>', 'supabase/functions of the project')
        .option('-c, --config <file>', 'the configuration file', 'svc.yaml'),
      terminal,
      CONVERTED,
      async (out, directory: string, { config }: { config: string }) => {
        if (!existsSync(config))
          throw failure(
            EXIT.misuse,
            `There is no ${config}`,
            'Name it with --config, or write one with svc init.',
          );
        const converted = convertFunctions({ from: directory, file: config });
        out.print(describeFunctions(converted));
        if (converted.byHand.length === 0) return { data: converted };
        const lines = converted.byHand.flatMap(({ name, reasons }) => [
          `${name}:`,
          ...reasons.map((reason) => `  ${reason}`),
        ]);
        const report = ['To be rewritten by hand:', ...lines].join('\n');
        return { data: converted, exitCode: EXIT.problem, report };
      },
    ),
  );
  supabase.addCommand(
    reporting(
      withSource('verify', 'compare both sides; ends with 1 when something differs'),
      terminal,
      VERIFIED,
      async (out, options: SourceOptions) => {
        const differences = [...(await onBoth(options, environment(), out, verify))];
        if (differences.length > 0)
          return { data: { differences }, exitCode: EXIT.problem, report: differences.join('\n') };
        out.print('Both sides are equal.');
        return { data: { differences } };
      },
    ),
  );
  supabase.addCommand(
    reporting(
      withSource('cut-over', 'copy for the last time and open the database for requests')
        .addOption(
          new Option(
            '--uncarried-factors <what>',
            'drop: users whose second factor does not move sign in with the password alone',
          )
            .choices(['refuse', 'drop'])
            .default('refuse'),
        )
        .option('--yes', 'really do it'),
      terminal,
      CHANGES,
      async (out, options: SourceOptions & { uncarriedFactors: string; yes?: boolean }) => {
        requireYes(
          options,
          'after this nothing more is taken over from the source, which nobody may write any more',
        );
        const dropFactors = options.uncarriedFactors === 'drop';
        const changes = await onBoth(options, environment(), out, (both) =>
          cutOver({ ...both, dropFactors }),
        );
        out.print(`${changes.map(describeChanges).join('\n')}\nThe database is open for requests.`);
        return { data: { changes: [...changes] } };
      },
    ),
  );
  supabase.addCommand(
    reporting(
      new Command('abandon')
        .description('delete the users, rows and files that were imported, before a cut-over')
        .option('--yes', 'really do it'),
      terminal,
      ABANDONED,
      async (out, options: { yes?: boolean }) => {
        requireYes(
          options,
          'this deletes the imported users, and all rows of the tables that were copied to',
        );
        const env = environment();
        requireDatabase(env);
        await withOwner(env, process.cwd(), OWNER, (_owner, _admin, roles) => abandon(roles.owner.direct));
        out.print('What was imported is deleted; the tables are empty.');
        return { data: { abandoned: true } };
      },
    ),
  );
  supabase.addCommand(
    reporting(
      withSource('changes', 'after the cut-over: what was inserted, updated and deleted here since').option(
        '--out <directory>',
        'write the rows there as CSV, for a way back',
      ),
      terminal,
      CHANGED,
      async (out, options: SourceOptions & { out?: string }) => {
        const changed = await onBoth(options, environment(), out, (both) =>
          listChanges({ ...both, out: options.out }),
        );
        out.print(describeChanged(changed, options.out));
        return { data: { tables: [...changed], directory: options.out ?? null } };
      },
    ),
  );
  supabase.addCommand(
    reporting(
      new Command('forget')
        .description('delete the database that was made of a dump')
        .argument('<dump>', 'file or folder of the dump'),
      terminal,
      FORGOTTEN,
      async (out, dump: string) => {
        if (!existsSync(dump))
          throw failure(EXIT.misuse, `There is no ${dump}`, 'Name the file of the dump.');
        const forgotten = await forgetDump(dump, dumpOptions(environment()));
        out.print(forgotten ? 'The database of the dump is deleted.' : 'There is no database of this dump.');
        return { data: { forgotten } };
      },
    ),
  );
  return new Command('import').description('move a project of another product here').addCommand(supabase);
}

type FilesOptions = SourceOptions & BytesOptions & { config?: string };

async function takeFiles(
  options: FilesOptions,
  environment: Environment,
  terminal: Terminal,
): Promise<Findings<z.infer<typeof FILES>>> {
  const project = await loadProject({ ...options, mode: 'production' }, terminal);
  const env = { ...environment, ...project.env };
  const source = await sourceAddress(options, env, terminal);
  requireDatabase(env);
  const bytes = bytesOf(options, env);
  await checkSource(source);
  const { config, directory } = project;
  const { copied, unchanged, removed, missing, unproven } = await withOwner(
    env,
    directory,
    { ...OWNER, max: 8 },
    (owner) => copyFiles({ source, owner, config, bytes }),
  ).finally(() => bytes.close());
  terminal.print(`files: ${copied} copied, ${unchanged} unchanged, ${removed} removed`);
  if (unproven.length > 0) terminal.print(describeUnproven(unproven));
  const data = { copied, unchanged, removed, missing: [...missing], unproven: [...unproven] };
  if (missing.length === 0) return { data };
  const lines = missing.map(({ name, why }) => `  ${name}: ${why}`);
  const report = [`${missing.length} files are not here:`, ...lines].join('\n');
  return { data, exitCode: EXIT.problem, report };
}

function describeUnproven(names: readonly string[]): string {
  return [
    `${names.length} of them are compared by their size alone: the source has no checksum, or one of parts whose size is unknown:`,
    ...names.slice(0, NAMED).map((name) => `  ${name}`),
    ...(names.length > NAMED ? [`  and ${names.length - NAMED} more`] : []),
  ].join('\n');
}

function withSource(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option(
      '--from <address>',
      `database of the project, without its password, or a dump of it; else ${SOURCE_VARIABLE}`,
    );
}

const OWNER = { applicationName: 'svc-import', max: 2 };

async function onBoth<T>(
  options: SourceOptions,
  env: Environment,
  terminal: Terminal,
  work: (both: CopyOptions) => Promise<T>,
): Promise<T> {
  const source = await sourceAddress(options, env, terminal);
  requireDatabase(env);
  const sourceKeys = sourceKeysOf(env);
  await checkSource(source);
  return await withOwner(env, process.cwd(), OWNER, async (owner, _admin, { owner: { direct: target } }) => {
    const keyring = await Keyring.open(owner, environmentSecrets(requireKeys(env).secret, env));
    return await work({ source, target, secrets: { sourceKeys, boxes: openBoxes(keyring) } });
  });
}

function sourceKeysOf(env: Environment): SourceKeys {
  const keys = env[KEYS_VARIABLE];
  return keys ? readSourceKeys(keys, KEYS_VARIABLE) : new Map<string, Buffer>();
}

function requireYes({ yes }: { readonly yes?: boolean }, what: string): void {
  if (yes !== true) throw failure(EXIT.misuse, what, 'Add --yes to do it.');
}

function describeChanges({ kind, added, changed, removed }: Changes): string {
  const name = NAMES[kind] ?? kind;
  if (added + changed + removed === 0) return `${name}: nothing new`;
  return `${name}: ${added} added, ${changed} changed, ${removed} removed`;
}

const readFactorsLeft = ({ source, secrets }: CopyOptions): Promise<Factor[]> =>
  readSource(source, async (from) => factorsLeft(await readFactors(from, secrets.sourceKeys)));

/** What a run that was complete otherwise has not brought. */
function describeLeft(left: readonly Factor[]): string[] {
  if (left.length === 0) return [];
  return [
    `${left.length} second factors stay behind; their users sign in with the password alone, and enrol a new one:`,
    ...left.slice(0, NAMED).map(({ name, why }) => `  ${name}: ${why}`),
    ...(left.length > NAMED ? [`  and ${left.length - NAMED} more`] : []),
  ];
}

function describeFunctions({ functions, variables, dependencies }: Converted): string {
  if (functions.length === 0) return 'No function was converted.';
  const lines = functions.map(
    ({ name, authRequired }) => `${name}: converted${authRequired ? ', for signed-in users only' : ''}`,
  );
  if (variables.length > 0)
    lines.push(`Set in the environment: ${variables.map((one) => `SVC_ENV_${one}`).join(', ')}`);
  if (variables.includes('SUPABASE_SERVICE_ROLE_KEY'))
    lines.push(
      'SVC_ENV_SUPABASE_SERVICE_ROLE_KEY gives a function the secret key; ctx.serviceClient does without it.',
    );
  if (Object.keys(dependencies).length > 0)
    lines.push('Install what they need: npm install --prefix functions');
  return lines.join('\n');
}

function describeChanged(changed: readonly Changed[], out: string | undefined): string {
  if (changed.length === 0) return 'Nothing has changed here since the cut-over.';
  const lines = changed.map(
    ({ table, inserted, updated, deleted }) =>
      `${table}: ${inserted} inserted, ${updated} updated, ${deleted} deleted`,
  );
  if (out === undefined) return [...lines, '--out <directory> writes the rows themselves.'].join('\n');
  const secrets = changed.some(({ table }) => table === 'auth.users');
  return [
    ...lines,
    `The rows are in ${out}${secrets ? ', with hashes of passwords: keep it to yourself' : ''}.`,
  ].join('\n');
}

const NAMES: Readonly<Record<string, string>> = {
  user: 'users',
  password: 'passwords',
  identity: 'identities',
  factor: 'second factors',
  session: 'sessions',
  method: 'how sessions were opened',
  token: 'refresh tokens of the older form',
  sequence: 'sequences',
};

/** Arguments are seen by everybody on the machine, so the password comes from the environment. A dump is restored first. */
async function sourceAddress(
  { from }: SourceOptions,
  env: Environment,
  terminal: Terminal,
): Promise<DatabaseAddress> {
  const text = from ?? env[SOURCE_VARIABLE];
  if (!text) {
    throw failure(
      EXIT.misuse,
      'Which project is meant?',
      `Put its connection string into ${SOURCE_VARIABLE}: Supabase shows it under Connect → Session pooler. For a dump: --from project.dump`,
    );
  }
  if (existsSync(text)) {
    const { address, refused } = await restoreDump(text, dumpOptions(env));
    if (refused) terminal.printError(`${describeRestored(text, address, refused)}\n`);
    return address;
  }
  if (from !== undefined && /:\/\/[^/@]*:[^/@]+@|password\s*=/.test(from)) {
    throw failure(
      EXIT.misuse,
      '--from has a password, which other users of this machine can read',
      `Put the whole address into ${SOURCE_VARIABLE}, or the password into PGPASSWORD.`,
    );
  }
  const name = from === undefined ? SOURCE_VARIABLE : '--from';
  const address = parseAddress(text, { name, env });
  // The end of a password that has a slash; messages would show it.
  if (address.database.includes('@'))
    throw failure(
      EXIT.misuse,
      `${name} has an @ in the name of its database`,
      'In a password @ : / ? # are written %40 %3A %2F %3F %23.',
    );
  return address;
}

function dumpOptions(env: Environment): DumpOptions {
  return { server: requireDatabase(env).direct, env };
}

function describeRestored(path: string, { database }: DatabaseAddress, refused: readonly Refused[]): string {
  const made = `note: ${path} is restored as the database ${database}; svc import supabase forget ${path} deletes it`;
  if (refused.length === 0) return made;
  return [
    made,
    `note: of ${path} the server refused what follows (${refused.length}). Look it through for what is yours:`,
    ...refused.slice(0, NAMED).map(({ statement, why }) => `  ${statement}\n    ${why}`),
    ...(refused.length > NAMED ? [`  and ${refused.length - NAMED} more`] : []),
  ].join('\n');
}

async function readReport(source: DatabaseAddress, env: Environment): Promise<Report> {
  const target = databaseAddresses(env)?.direct;
  const facts = target && (await readTarget(target));
  return await readSource(source, (database) => makeReport(database, facts, sourceKeysOf(env)));
}

function describeReport({ moves, decide, stays }: Report): string {
  return [
    section('Moves', moves),
    section('To decide', decide),
    section('Stays behind', stays),
    'Nothing was changed.',
  ]
    .filter((text) => text !== '')
    .join('\n\n');
}

function section(title: string, lines: readonly Line[]): string {
  if (lines.length === 0) return '';
  return [title, ...lines.map(describeLine)].join('\n');
}

function describeLine({ what, count, why }: Line): string {
  return `  ${count === undefined ? '' : `${count} `}${what}${why === undefined ? '' : `: ${why}`}`;
}
