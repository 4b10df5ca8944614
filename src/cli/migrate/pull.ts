// `pull`: writes svc.yaml from an existing database.
import type { z } from 'zod';
import { basename, dirname, join } from 'node:path';
import type { Config } from '../../config/config.ts';
import { loadConfig } from '../../config/load.ts';
import { renderMistakes } from '../../config/mistakes/report.ts';
import { type PulledFile, pulledFile, pulledText, withoutOmitted } from '../../migrate/commands/pull.ts';
import { readUndeclaredInDatabase } from '../../migrate/commands/adoption/undeclared-attributes.ts';
import { closeToPublic } from '../../migrate/commands/adoption/close-public.ts';
import { readHiddenFunctions } from '../../migrate/commands/adoption/hidden-functions.ts';
import { readSchemas } from '../../migrate/commands/adoption/project-schemas.ts';
import { readUses } from '../../migrate/commands/adoption/read-uses.ts';
import { renderReport } from '../../migrate/commands/adoption/report.ts';
import { splitFile } from '../../migrate/commands/adoption/split-file.ts';
import { listReviewItems } from '../../migrate/commands/adoption/review-items.ts';
import { readUndeclaredObjects } from '../../migrate/commands/undeclared-objects.ts';
import { readLive } from '../../migrate/schema/live/read-live.ts';
import { databaseAddresses } from '../../postgres/address/database-addresses.ts';
import { OwnerDatabase, type Queryable } from '../../postgres/owner-database.ts';
import { CommandFailure, EXIT, failure } from '../exit.ts';
import type { Findings } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';
import { MIGRATE_EXIT } from './exit.ts';
import type { ADOPTED, PULLED } from './results.ts';
import { verifyPulled } from './verify-pulled.ts';
import { rejectUnknownFiles, writeAll } from './write-pulled.ts';

type Pulled = Findings<z.infer<typeof PULLED>>;
type Adopted = Findings<z.infer<typeof ADOPTED>>;

export type PullOptions = {
  readonly schema?: string[];
  readonly table?: string;
  readonly out?: string;
  readonly force?: true;
  readonly split?: true;
  readonly report?: string;
  readonly strict?: true;
};

export async function pull(options: PullOptions, terminal: Terminal): Promise<Adopted> {
  if (options.split && options.out === undefined)
    throw failure(
      EXIT.misuse,
      '--split writes several files, so it needs --out',
      'For example: --out svc.yaml.',
    );
  const database = databaseAddresses(process.env);
  if (!database)
    throw failure(MIGRATE_EXIT.unreachable, 'SVC_DATABASE_URL is not set', 'Set it to the database to read.');
  // Connects as the user of the URL: a database that is only read is not provisioned.
  const owner = new OwnerDatabase({
    address: database.direct,
    applicationName: 'svc-migrate',
    // One connection for the plan, one for the ownership checks at the same time.
    max: 2,
    idleTimeoutMs: 5_000,
  });
  try {
    const found = await owner.session((session) => readDatabase(session, options.schema));
    const absent = (options.schema ?? []).filter((name) => !found.live.schemas.has(name));
    if (absent.length > 0)
      throw failure(EXIT.problem, `there is no schema ${absent.join(', ')} in this database`);
    const isTaken = taking(options.table);
    const remaining = withoutOmitted(found.live, isTaken, found.uses);
    const { live } = remaining;
    const left = [...(options.table === undefined ? found.left : []), ...remaining.omitted];
    const pulled = pulledFile(closeToPublic(live), isTaken, { omitted: left, hidden: found.hidden });
    const decide = listReviewItems(live, isTaken);
    const whole = pulledText(pulled.document);
    const data = await give(pulled, renderReport({ ...pulled, decide }), options, terminal);
    const config = checkPulled(whole, options.out ?? 'svc.yaml');
    const verified =
      options.table === undefined && (await verify(owner, { config, repaired: pulled.repaired }, terminal));
    return { data: { ...data, left: pulled.omitted, decide, verified }, ...strictly(pulled, options) };
  } finally {
    await owner.close();
  }
}

/**
 * Reads the database. `given`: schemas of `--schema`. Default: all that belong to no product and no
 * extension.
 */
async function readDatabase(session: Queryable, given: readonly string[] | undefined) {
  const { read, omitted } = given === undefined ? await readSchemas(session) : { read: given, omitted: [] };
  return {
    live: await readLive(session, read),
    uses: await readUses(session, read),
    hidden: await readHiddenFunctions(session),
    left: [
      ...omitted,
      ...(await readUndeclaredObjects(session, read)),
      ...(await readUndeclaredInDatabase(session)),
    ],
  };
}

/** Returns whether the database matches the file. Prints the reason if they could not be compared. */
async function verify(
  owner: OwnerDatabase,
  { config, repaired }: { readonly config: Config; readonly repaired: readonly string[] },
  terminal: Terminal,
): Promise<boolean> {
  const verdict = await verifyPulled(owner, config, repaired);
  if (verdict.kind === 'differs')
    throw new CommandFailure(
      EXIT.fault,
      `${verdict.lines.join('\n')}\n\nThe file would change the database that it was pulled from. ` +
        'This is a defect of pull. Please report the lines above.',
    );
  if (verdict.kind === 'not-compared')
    terminal.printError(
      `note: not compared with the database (${verdict.why}). Run svc migrate plan to compare them`,
    );
  return verdict.kind === 'same';
}

/** Returns an exit code if `--strict` is set and the file does not contain the whole database. */
function strictly(
  { omitted }: PulledFile,
  { strict }: Pick<PullOptions, 'strict'>,
): Pick<Adopted, 'exitCode' | 'report'> {
  if (!strict || omitted.length === 0) return {};
  return {
    exitCode: MIGRATE_EXIT.pending,
    report: `not in the file:\n${omitted.map((line) => `  ${line}`).join('\n')}`,
  };
}

/** Prints the file, or writes it and its parts. Writes no file if one of them exists with other content. */
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
    ? texts.map(([path, part]) => [join(dirname(out), path), part] as const)
    : [[out, text] as const];
  if (options.split)
    await rejectUnknownFiles(join(dirname(out), 'tables'), new Set(files.map(([path]) => path)));
  const written = await writeAll([...files, ...extra], options, terminal);
  reportWritten(written, out, terminal);
  return { file: out, text, written: written.length > 0, files: written };
}

/** Prints the file, or writes it unless another file exists. */
export async function givePulled(
  text: string,
  options: Pick<PullOptions, 'out' | 'force'>,
  terminal: Terminal,
): Promise<Pulled> {
  const { out } = options;
  if (out === undefined) terminal.print(text.trimEnd());
  const written = out === undefined ? [] : await writeAll([[out, text]], options, terminal);
  if (out !== undefined) reportWritten(written, out, terminal);
  checkPulled(text, out ?? 'svc.yaml');
  return { data: { file: out ?? null, text, written: written.length > 0 } };
}

function reportWritten(written: readonly string[], out: string, terminal: Terminal): void {
  terminal.print(
    written.length === 0
      ? `${out} already matches the database`
      : `wrote ${written.join(', ')}. Review it, then run: svc migrate plan -c ${out}`,
  );
}

/** Returns a predicate for tables that a glob matches, by `schema.name` or by name. */
function taking(glob: string | undefined): (key: string) => boolean {
  if (glob === undefined) return () => true;
  const pattern = new RegExp(`^${glob.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*')}$`);
  return (key) => pattern.test(key) || pattern.test(key.slice(key.indexOf('.') + 1));
}

/** Loads a pulled file. If svc rejects it, that is a defect of `pull`. */
function checkPulled(text: string, file: string): Config {
  const loaded = loadConfig({ name: file, directory: undefined, text }, { variables: {} });
  if (loaded.ok) return loaded.config;
  const errors = loaded.mistakes.filter(({ severity }) => severity === 'error');
  throw new CommandFailure(
    EXIT.fault,
    `${renderMistakes(errors, { file, text })}\n\n` +
      'svc cannot read the file that it wrote. This is a defect of pull. Please report the lines above. ' +
      'Correct or remove them to use the file.',
  );
}
