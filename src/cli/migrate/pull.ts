// `pull`: an existing database as a svc.yaml.
import type { z } from 'zod';
import { basename, dirname, join } from 'node:path';
import type { Config } from '../../config/config.ts';
import { loadConfig } from '../../config/load.ts';
import { renderMistakes } from '../../config/mistakes/report.ts';
import { type PulledFile, pulledFile, pulledText } from '../../migrate/commands/pull.ts';
import { readLeftOfDatabase } from '../../migrate/commands/adoption/left-attributes.ts';
import { renderReport } from '../../migrate/commands/adoption/report.ts';
import { splitFile } from '../../migrate/commands/adoption/split-file.ts';
import { toDecide } from '../../migrate/commands/adoption/to-decide.ts';
import { readLeft } from '../../migrate/commands/pulled-left.ts';
import { readLive } from '../../migrate/schema/live/read-live.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { OwnerDatabase } from '../../postgres/owner-database.ts';
import { CommandFailure, EXIT, failure } from '../exit.ts';
import type { Findings } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { MIGRATE_EXIT } from './exit.ts';
import type { ADOPTED, PULLED } from './results.ts';
import { verifyPulled } from './verify-pulled.ts';
import { refuseStrangers, writeAll } from './write-pulled.ts';

type Pulled = Findings<z.infer<typeof PULLED>>;
type Adopted = Findings<z.infer<typeof ADOPTED>>;

export type PullOptions = {
  readonly schema: string[];
  readonly table?: string;
  readonly out?: string;
  readonly force?: true;
  readonly split?: true;
  readonly report?: string;
  readonly strict?: true;
};

export async function pull(options: PullOptions, terminal: Terminal): Promise<Adopted> {
  if (options.split && options.out === undefined)
    throw failure(EXIT.misuse, '--split writes several files', '--out svc.yaml says where.');
  const database = databaseAddresses(process.env);
  if (!database)
    throw failure(MIGRATE_EXIT.unreachable, 'SVC_DATABASE_URL is not set', 'It names the database to read.');
  // As the user of the address: a database that is only read is not provisioned for it.
  const owner = new OwnerDatabase({
    address: database.direct,
    applicationName: 'svc-migrate',
    // The plan, and the look at what belongs to others meanwhile.
    max: 2,
    idleTimeoutMs: 5_000,
  });
  try {
    const { live, ...found } = await owner.session(async (session) => ({
      live: await readLive(session, options.schema),
      left: [...(await readLeft(session, options.schema)), ...(await readLeftOfDatabase(session))],
    }));
    const absent = options.schema.filter((name) => !live.schemas.has(name));
    if (absent.length > 0)
      throw failure(EXIT.problem, `there is no schema ${absent.join(', ')} in this database`);
    const isTaken = taking(options.table);
    const left = options.table === undefined ? found.left : [];
    const pulled = pulledFile(live, isTaken, { storage: {}, realtime: {}, left });
    const decide = toDecide(live, isTaken);
    const whole = pulledText(pulled.document);
    const data = await give(pulled, renderReport({ ...pulled, decide }), options, terminal);
    const config = checkPulled(whole, options.out ?? 'svc.yaml');
    const verified = options.table === undefined && (await verify(owner, config, terminal));
    return { data: { ...data, left: pulled.left, decide, verified }, ...strictly(pulled, options) };
  } finally {
    await owner.close();
  }
}

/** Whether the database was found to be as the file says; says why, where it could not be compared. */
async function verify(owner: OwnerDatabase, config: Config, terminal: Terminal): Promise<boolean> {
  const verdict = await verifyPulled(owner, config);
  if (verdict.kind === 'differs')
    throw new CommandFailure(
      EXIT.fault,
      `${verdict.lines.join('\n')}\n\nThe file would change the database that it was pulled from: a defect of pull. Please report the lines above.`,
    );
  if (verdict.kind === 'not-compared')
    terminal.printError(`note: not compared with the database (${verdict.why}); svc migrate plan does it`);
  return verdict.kind === 'same';
}

/** Where the file is not the whole database, a script that asked for that ends. */
function strictly(
  { left }: PulledFile,
  { strict }: Pick<PullOptions, 'strict'>,
): Pick<Adopted, 'exitCode' | 'report'> {
  if (!strict || left.length === 0) return {};
  return {
    exitCode: MIGRATE_EXIT.pending,
    report: `not in the file:\n${left.map((line) => `  ${line}`).join('\n')}`,
  };
}

/** Prints the file, or writes it and its parts; writes none where one of them is there and says something else. */
async function give(
  { document }: PulledFile,
  report: string,
  options: PullOptions,
  terminal: Terminal,
): Promise<Pick<Adopted['data'], 'file' | 'text' | 'written' | 'files'>> {
  const { out } = options;
  const parts = options.split ? splitFile(document, basename(out ?? 'svc.yaml')) : [['', document] as const];
  const texts = parts.map(([path, part]) => [path, pulledText(part)] as const);
  const [[, text] = ['', '']] = texts;
  const extra = options.report === undefined ? [] : [[options.report, report] as const];
  if (out === undefined) {
    terminal.print(text.trimEnd());
    const written = await writeAll(extra, options, terminal);
    return { file: null, text, written: false, files: written };
  }
  const files = options.split
    ? texts.map(([path, one]) => [join(dirname(out), path), one] as const)
    : [[out, text] as const];
  if (options.split)
    await refuseStrangers(join(dirname(out), 'tables'), new Set(files.map(([path]) => path)));
  const written = await writeAll([...files, ...extra], options, terminal);
  tellWritten(written, out, terminal);
  return { file: out, text, written: written.length > 0, files: written };
}

/** Prints the file, or writes it where nothing else is. */
export async function givePulled(
  text: string,
  options: Pick<PullOptions, 'out' | 'force'>,
  terminal: Terminal,
): Promise<Pulled> {
  const { out } = options;
  if (out === undefined) terminal.print(text.trimEnd());
  const written = out === undefined ? [] : await writeAll([[out, text]], options, terminal);
  if (out !== undefined) tellWritten(written, out, terminal);
  checkPulled(text, out ?? 'svc.yaml');
  return { data: { file: out ?? null, text, written: written.length > 0 } };
}

function tellWritten(written: readonly string[], out: string, terminal: Terminal): void {
  terminal.print(
    written.length === 0
      ? `${out} already says what the database has`
      : `wrote ${written.join(', ')}. Look at it, then: svc migrate plan -c ${out}`,
  );
}

/** Which tables a glob takes, by `schema.name` or by name. */
function taking(glob: string | undefined): (key: string) => boolean {
  if (glob === undefined) return () => true;
  const pattern = new RegExp(`^${glob.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')}$`);
  return (key) => pattern.test(key) || pattern.test(key.slice(key.indexOf('.') + 1));
}

/** A pulled file is one that svc reads: what it refuses there is a defect of `pull`. */
function checkPulled(text: string, file: string): Config {
  const loaded = loadConfig({ name: file, directory: undefined, text }, { variables: {} });
  if (loaded.ok) return loaded.config;
  const errors = loaded.mistakes.filter(({ severity }) => severity === 'error');
  throw new CommandFailure(
    EXIT.fault,
    `${renderMistakes(errors, { file, text })}\n\nsvc does not read its own file here: a defect of pull. Please report the lines above; with them mended or taken out, the file can be used.`,
  );
}
