// `svc seed`: inserts the users, rows and files of `seed`. `svc dev` does the same for its own database.
import { Command, Option } from 'commander';
import { z } from 'zod';
import { isLoopback } from '../../lib/ip-address.ts';
import { MODES, type Mode } from '../../config/mode.ts';
import { seed, type SeedResult } from '../../seed/seed.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { loadProject, requireLocal, type Project } from '../project/project.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

type SeedOptions = { config?: string; mode?: Mode; again?: boolean };

const SEEDED = z.strictObject({
  mode: z.enum(MODES),
  seeded: z.array(z.strictObject({ name: z.string(), users: z.int(), rows: z.int(), objects: z.int() })),
});

export function seedCommand(terminal: Terminal): Command {
  const command = new Command('seed')
    .description('insert the users, rows and files of `seed` into the database, once')
    .argument('[names...]', 'entries of `seed` (default: all entries of the mode)')
    .option('-c, --config <file>', 'the configuration file')
    .addOption(
      new Option(
        '--mode <mode>',
        'entries that can run; defaults to development for a local database',
      ).choices(MODES),
    )
    .option('--again', 'also run entries that have run already');
  return reporting(command, terminal, SEEDED, async (out, names: string[], options: SeedOptions) => {
    const project = await loadProject({ ...options, mode: options.mode ?? 'development' }, out);
    requireLocal(project, 'svc seed needs the files of the project');
    const mode = options.mode ?? defaultMode(project);
    const results = await seedDatabase(project, { names, mode, again: options.again });
    out.print(results.length > 0 ? results.map(describe).join('\n') : nothing(project, mode));
    const seeded = results.map(({ name, users, rows, objects }) => ({ name, users, rows, objects }));
    return { data: { mode, seeded } };
  });
}

type Choice = {
  readonly names?: readonly string[];
  readonly mode: Mode;
  readonly again?: boolean | undefined;
};

export async function seedDatabase(
  { config, env, directory }: Project,
  choice: Choice,
): Promise<readonly SeedResult[]> {
  return await withOwner(env, directory, { applicationName: 'svc-seed', max: 2 }, (owner) =>
    seed({ owner, config, ...choice }),
  );
}

/** Returns the default mode. Throws for a remote database, which must not get test users by mistake. */
function defaultMode({ env }: Project): Mode {
  const targets = databaseAddresses(env)?.direct.targets ?? [];
  const isHere = targets.every(
    ({ host }) => host.startsWith('/') || host === 'localhost' || isLoopback(host),
  );
  if (isHere) return 'development';
  throw failure(
    EXIT.misuse,
    `SVC_DATABASE_URL points to ${targets[0]?.host}, which is not this machine`,
    `Choose the entries: svc seed --mode ${MODES.join('|')}`,
  );
}

export function describe({ name, users, rows, objects }: SeedResult): string {
  const counts = [
    count(users, 'user', 'users'),
    count(rows, 'row', 'rows'),
    count(objects, 'file', 'files'),
  ].filter((text) => text !== '');
  return `seeded ${name}: ${counts.length > 0 ? counts.join(', ') : 'everything already existed'}`;
}

const count = (number: number, singular: string, plural: string): string =>
  number === 0 ? '' : `${number} ${number === 1 ? singular : plural}`;

function nothing({ config, source }: Project, mode: Mode): string {
  if (!config.seed.some(({ modes }) => modes.includes(mode))) return `${source} has no seed for ${mode}`;
  return 'nothing to do: all entries have run and have not changed since (use --again to repeat them)';
}
