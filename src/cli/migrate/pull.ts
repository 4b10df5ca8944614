// `pull`: an existing database as a svc.yaml.
import type { z } from 'zod';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { loadConfig } from '../../config/load.ts';
import { renderMistakes } from '../../config/mistakes/report.ts';
import { codeOf, ifExists } from '../../lib/error-code.ts';
import { diffLines } from '../../lib/line-diff.ts';
import { renderPulled } from '../../migrate/commands/pull.ts';
import { readLeftOfDatabase } from '../../migrate/commands/adoption/left-attributes.ts';
import { readLeft } from '../../migrate/commands/pulled-left.ts';
import { readLive } from '../../migrate/schema/live/read-live.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { CommandFailure, EXIT, failure } from '../exit.ts';
import type { Findings } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { MIGRATE_EXIT } from './exit.ts';
import type { PULLED } from './results.ts';

type Pulled = Findings<z.infer<typeof PULLED>>;

export type PullOptions = {
  readonly schema: string[];
  readonly table?: string;
  readonly out?: string;
  readonly force?: true;
};

export async function pull(options: PullOptions, terminal: Terminal): Promise<Pulled> {
  const database = databaseAddresses(process.env);
  if (!database)
    throw failure(MIGRATE_EXIT.unreachable, 'SVC_DATABASE_URL is not set', 'It names the database to read.');
  // As the user of the address: a database that is only read is not provisioned for it.
  const owner = new OwnerDatabase({
    address: database.direct,
    applicationName: 'svc-migrate',
    max: 1,
    idleTimeoutMs: 5_000,
  });
  try {
    const { live, left } = await owner.session(async (session) => ({
      live: await readLive(session, options.schema),
      left: [...(await readLeft(session, options.schema)), ...(await readLeftOfDatabase(session))],
    }));
    const absent = options.schema.filter((name) => !live.schemas.has(name));
    if (absent.length > 0)
      throw failure(EXIT.problem, `there is no schema ${absent.join(', ')} in this database`);
    const text = renderPulled(live, taking(options.table), {
      storage: {},
      realtime: {},
      left: options.table === undefined ? left : [],
    });
    return await givePulled(text, options, terminal);
  } finally {
    await owner.close();
  }
}

/** Prints the file, or writes it where nothing else is. */
export async function givePulled(
  text: string,
  options: Pick<PullOptions, 'out' | 'force'>,
  terminal: Terminal,
): Promise<Pulled> {
  const { out } = options;
  if (out === undefined) terminal.print(text.trimEnd());
  const written = out !== undefined && (await write(out, text, options, terminal));
  checkPulled(text, out ?? 'svc.yaml');
  return { data: { file: out ?? null, text, written } };
}

/** Which tables a glob takes, by `schema.name` or by name. */
function taking(glob: string | undefined): (key: string) => boolean {
  if (glob === undefined) return () => true;
  const pattern = new RegExp(`^${glob.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')}$`);
  return (key) => pattern.test(key) || pattern.test(key.slice(key.indexOf('.') + 1));
}

async function write(
  file: string,
  text: string,
  { force }: Pick<PullOptions, 'force'>,
  terminal: Terminal,
): Promise<boolean> {
  const before = await ifExists(readFile(file, 'utf8')).catch(cannot('read', file));
  if (before !== undefined && before !== text && force !== true) {
    for (const { sign, text: line } of diffLines(before, text)) terminal.print(`${sign} ${line}`);
    throw failure(
      EXIT.problem,
      `${file} is there already and says something else: - is what it says, + what the database has. Nothing was written.`,
      '--force writes over it; --out names another file.',
    );
  }
  if (before === text) {
    terminal.print(`${file} already says what the database has`);
    return false;
  }
  await mkdir(dirname(file), { recursive: true }).catch(cannot('write', file));
  await writeFile(file, text).catch(cannot('write', file));
  terminal.print(`wrote ${file}. Look at it, then: svc migrate plan -c ${file}`);
  return true;
}

function cannot(what: string, file: string): (error: unknown) => never {
  return (error) => {
    const code = codeOf(error);
    if (code === undefined) throw error;
    throw failure(EXIT.problem, `cannot ${what} ${file}: ${code}`);
  };
}

/** A pulled file is one that svc reads: what it refuses there is a defect of `pull`. */
function checkPulled(text: string, file: string): void {
  const loaded = loadConfig({ name: file, directory: undefined, text }, { variables: {} });
  if (loaded.ok) return;
  const errors = loaded.mistakes.filter(({ severity }) => severity === 'error');
  throw new CommandFailure(
    EXIT.fault,
    `${renderMistakes(errors, { file, text })}\n\nsvc does not read its own file here: a defect of pull. Please report the lines above; with them mended or taken out, the file can be used.`,
  );
}
