// A large configuration that was read is kept beside its file, so that the next start of the same file need not read it
// again, and that of a changed one only what has changed. It decides who sees which row and holds what variables stood
// for. So it is sealed with the secret key of the API: nobody without that key can write or read one. And it counts for
// nothing unless everything that it was made from is as it was: the text, the files beside it, the variables, the options,
// and svc itself; of a changed text, the tables that are as they were.
import { createHash, type Hash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { deserialize, serialize } from 'node:v8';
import { secretBox, type SecretBox } from '../../lib/secret-box.ts';
import type { Config } from '../config.ts';
import {
  loadChanged,
  loadConfig,
  withParts,
  type IncludedPart,
  type Loaded,
  type LoadOptions,
} from '../load.ts';
import { prepareToRead } from '../read/read-parts.ts';
import type { Mistake } from '../mistakes/mistake.ts';
import type { Source } from '../read/source.ts';
import { isAsSeen, type Seen } from '../read/looked-at.ts';
import type { SvcFile } from '../schema/schema.ts';
import { programFingerprint } from './program.ts';
import { unreadTables } from './unread-tables.ts';

/** Files below this size are read in less time than it takes to notice. */
export const LEAST_KEPT_BYTES = 64 * 1024;

export type KeepOptions = LoadOptions & {
  /** The secret key of the API. Without it nothing is kept. */
  readonly secret: string | undefined;
};

export type MaybeKept<Extra> = {
  readonly loaded: Loaded;
  /** What was kept with it; undefined where the file has been read. */
  readonly extra: Extra | undefined;
  /** False where what was kept has spared reading all of it. */
  readonly isReadWhole: boolean;
  /**
   * Keeps what was read, and something that follows from it, for the next time. Undefined where it is kept already, or
   * not worth it.
   */
  readonly keep: ((extra: Extra) => void) | undefined;
};

type Kept<Extra> = {
  readonly text: string;
  readonly config: Omit<Config, 'source'>;
  /** Serialized by itself: only a changed text asks for it. */
  readonly tables: Uint8Array;
  readonly warnings: readonly Mistake[];
  readonly files: readonly string[];
  readonly watched: readonly string[];
  readonly parts: readonly IncludedPart[];
  readonly overlay: IncludedPart | undefined;
  readonly seen: Seen;
  readonly extra: Extra;
};

/** Takes the plain data of `Extra` along, as it follows from the configuration. */
export async function loadOrKept<Extra>(
  source: Source,
  { secret, ...options }: KeepOptions,
): Promise<MaybeKept<Extra>> {
  const { directory, text } = source;
  const isWorthIt =
    secret !== undefined &&
    directory !== undefined &&
    source.drafts === undefined &&
    text.length >= LEAST_KEPT_BYTES;
  if (!isWorthIt) {
    await prepareToRead(source);
    return { loaded: loadConfig(source, options), extra: undefined, isReadWhole: true, keep: undefined };
  }
  const place = placeOf(directory, source, options);
  const box = secretBox(secret, 'kept configuration');
  const context = contextOf(source, options);
  const kept = readKept<Extra>(place, box, context);
  if (kept?.text === text && isAsSeen(kept.seen, options.variables))
    return { loaded: toLoaded(source, kept), extra: kept.extra, isReadWhole: false, keep: undefined };
  await prepareToRead(source);
  const changed = kept && changedSince(kept, source, options);
  const loaded = changed ?? loadConfig(source, options);
  const isReadWhole = changed === undefined;
  if (!loaded.ok) return { loaded, extra: undefined, isReadWhole, keep: undefined };
  return {
    loaded,
    extra: undefined,
    isReadWhole,
    keep(extra) {
      // What has changed since it was read is news for the next start.
      if (!isAsSeen(loaded.seen, options.variables)) return;
      const found: Kept<Extra> = { text, ...toKept(loaded), extra };
      writeKept(place, box.seal(serialize(found), context));
    },
  };
}

/** Undefined where all of it has to be read. */
function changedSince(kept: Kept<unknown>, source: Source, options: LoadOptions): Loaded | undefined {
  const { seen, parts, tables } = kept;
  const compared = new Set(parts.flatMap(({ path, yaml }) => (yaml === undefined ? [path] : [])));
  if (!isAsSeen(seen, options.variables, compared)) return undefined;
  const unread = unreadTables(source, { ...kept, tables: toTables(tables) });
  return unread && loadChanged(source, options, unread);
}

/** Written anew for every text: what was kept for another one is of no use any more. */
function placeOf(directory: string, { name, mode }: Source, { strict }: LoadOptions): string {
  const which = createHash('sha256')
    .update(`${basename(name)}\0${strict === true}\0${mode}`)
    .digest('hex');
  return join(directory, '.svc', 'kept', which.slice(0, 16));
}

/** Who may take it: the same program for the same file. */
function contextOf({ name, directory = '', mode }: Source, { strict }: LoadOptions): string {
  const hash = createHash('sha256');
  for (const part of [programFingerprint(), name, directory, String(mode), String(strict === true)])
    add(hash, part);
  return hash.digest('base64');
}

function add(hash: Hash, part: string): void {
  hash.update(`${Buffer.byteLength(part)} `).update(part);
}

function readKept<Extra>(place: string, box: SecretBox, context: string): Kept<Extra> | undefined {
  try {
    const opened = box.open(readFileSync(place), context);
    // What opens was sealed by this very program for this very file.
    return opened && (deserialize(opened) as Kept<Extra>);
  } catch {
    // Absent above all. Whatever it is, the file itself is there to be read.
    return undefined;
  }
}

function writeKept(place: string, sealed: Buffer): void {
  const written = `${place}.${process.pid}`;
  try {
    mkdirSync(join(place, '..'), { recursive: true, mode: 0o700 });
    writeFileSync(written, sealed, { mode: 0o600 });
    renameSync(written, place);
  } catch {
    // A directory that may not be written to, most often. The next start reads the file.
    removeQuietly(written);
  }
}

function removeQuietly(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // It is not there.
  }
}

function toKept({
  config,
  tables,
  warnings,
  files,
  included,
  seen,
}: Extract<Loaded, { ok: true }>): Omit<Kept<unknown>, 'text' | 'extra'> {
  const { source: _source, ...rest } = config;
  const { watched, parts, overlay } = included;
  return { config: rest, tables: serialize(tables), warnings, files, watched, parts, overlay, seen };
}

function toTables(serialized: Uint8Array): SvcFile['tables'] {
  return deserialize(serialized) as SvcFile['tables'];
}

function toLoaded(source: Source, kept: Kept<unknown>): Loaded {
  const { config, warnings, files, watched, parts, overlay, seen } = kept;
  const texts = [...parts, ...(overlay ? [overlay] : [])];
  return {
    ok: true,
    config: { ...config, source: withParts(source, { parts, overlay }) },
    get tables() {
      return toTables(kept.tables);
    },
    warnings,
    files,
    included: { parts, overlay, texts: new Map(texts.map(({ name, text }) => [name, text])), watched },
    seen,
  };
}
