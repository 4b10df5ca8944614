// Which tables of a changed file are as they were when it was read before, and need not be read again. What a table may say
// depends on others: so a table counts as unchanged only where its own text is as it was, where it names no table that is
// not, and where everything outside of tables is as it was, too.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../config.ts';
import type { IncludedPart } from '../load.ts';
import type { Mistake } from '../mistakes/mistake.ts';
import { movedTable } from '../normalise.ts';
import type { Source } from '../read/source.ts';
import type { SvcFile } from '../schema/schema.ts';
import type { UnreadTable, Unread } from '../unread.ts';
import { cutTables, withoutBlocks, type CutText, type TableBlock } from './table-blocks.ts';

/** What an earlier reading has found. */
export type ReadBefore = {
  readonly text: string;
  readonly parts: readonly IncludedPart[];
  readonly warnings: readonly Mistake[];
  readonly config: Pick<Config, 'tables'>;
  readonly tables: SvcFile['tables'];
};

/** Below this part of all tables it is hardly less work than reading everything. */
const LEAST_UNREAD = 0.25;
/** More changed tables are not looked for in the texts of the others. */
const MOST_CHANGED = 100;
/** What stands for another text: a variable, an escape, a line that goes on. The table that is meant does not show. */
const HIDDEN = /\$\{|\\(?:[xuU]|\n)/;
/** A section of tables in any form. */
const ANY_TABLES = /^(?:tables|["']tables["'])\s*:|^\{/m;

type CutPart = { readonly path: string; readonly text: string; readonly now: CutText };

type Compared = {
  readonly parts: readonly CutPart[];
  /** Tables whose text is another one, that came, or that are gone. */
  readonly changed: ReadonlySet<string>;
  /** Where the others stood. */
  readonly was: ReadonlyMap<string, TableBlock>;
  /** Of whom several files speak. */
  readonly inSeveral: ReadonlySet<string>;
};

/** Undefined: everything has to be read. */
export function unreadTables(source: Source, before: ReadBefore): Unread | undefined {
  const compared = compareTexts(source, before);
  const always = tablesToReadAlways(before);
  if (!compared || !always || compared.changed.size > MOST_CHANGED) return undefined;
  const { parts, changed, was, inSeveral } = compared;
  const mentionsChanged = mentionOf(changed);
  const isToRead = ({ name, text }: TableBlock): boolean =>
    changed.has(name) ||
    inSeveral.has(name) ||
    always.has(name) ||
    HIDDEN.test(text) ||
    mentionsChanged.test(text);
  const known = new Map(before.config.tables.map((table) => [table.name, table]));
  const tables = new Map<string, UnreadTable>();
  for (const { now } of parts) {
    // A part of which nothing were left would be no map any more: the first one is always read.
    for (const block of now.blocks.slice(1)) {
      const { name, line } = block;
      const [raw, table, earlier] = [before.tables[name], known.get(name), was.get(name)];
      if (raw && table && earlier && !isToRead(block))
        tables.set(name, { raw, table: movedTable(table, line - earlier.line) });
    }
  }
  const names = new Set(parts.flatMap(({ now }) => now.blocks.map(({ name }) => name)));
  if (tables.size < names.size * LEAST_UNREAD) return undefined;
  const byPath = new Map(parts.map((part) => [part.path, part]));
  return {
    tables,
    names: [...names],
    toRead(path, text) {
      const part = byPath.get(path);
      // Written meanwhile, it is read as a whole, and what it says of an unread table shows that.
      return part?.text === text ? withoutBlocks(part.now, (name) => tables.has(name)) : text;
    },
  };
}

/** Undefined where something other than tables has changed, or where the tables stand cannot be told. */
function compareTexts(source: Source, before: ReadBefore): Compared | undefined {
  const parts: CutPart[] = [];
  const changed = new Set<string>();
  const was = new Map<string, TableBlock>();
  const inSeveral = new Set<string>();
  const yamlParts = before.parts.filter(({ yaml }) => yaml === undefined);
  for (const { path, text: then } of [{ path: '', text: before.text }, ...yamlParts]) {
    const text = path === '' ? source.text : textOf(source, path);
    if (text === undefined) return undefined;
    const now = cutTables(text);
    const earlier = text === then ? now : cutTables(then);
    if (!now || !earlier) {
      if (text !== then || ANY_TABLES.test(text)) return undefined;
      continue;
    }
    if (now.before !== earlier.before || now.after !== earlier.after) return undefined;
    const left = new Map(earlier.blocks.map((block) => [block.name, block]));
    for (const { name, text: block } of now.blocks) {
      const same = left.get(name);
      if (same?.text !== block) changed.add(name);
      else if (was.has(name)) inSeveral.add(name);
      else was.set(name, same);
      left.delete(name);
    }
    for (const name of left.keys()) changed.add(name);
    parts.push({ path, text, now });
  }
  return { parts, changed, was, inSeveral };
}

/** Those with a warning, which is to be said again, and those that SQL files add to. Undefined where that is not known. */
function tablesToReadAlways({ warnings, parts }: ReadBefore): ReadonlySet<string> | undefined {
  // There were too many to show.
  if (warnings.some(({ code }) => code === 'more')) return undefined;
  const names = warnings.flatMap(({ path: [key, name] }) => (key === 'tables' ? [String(name)] : []));
  for (const { yaml } of parts) {
    if (yaml === undefined || !ANY_TABLES.test(yaml)) continue;
    const cut = cutTables(yaml);
    if (!cut) return undefined;
    names.push(...cut.blocks.map(({ name }) => name));
  }
  return new Set(names);
}

function textOf({ directory }: Source, path: string): string | undefined {
  try {
    return readFileSync(join(directory ?? '.', path), 'utf8');
  } catch {
    return undefined;
  }
}

/** SQL does not tell capitals apart. */
function mentionOf(names: ReadonlySet<string>): RegExp {
  const words = [...names].map((name) => name.replaceAll(/[.-]/g, String.raw`\$&`));
  return words.length === 0 ? /(?!)/ : new RegExp(String.raw`(?<!\w)(?:${words.join('|')})(?!\w)`, 'i');
}
