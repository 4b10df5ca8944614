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

/** Undefined: everything has to be read. */
export function unreadTables(source: Source, before: ReadBefore): Unread | undefined {
  // There were too many to show, so whose they are is not known.
  if (before.warnings.some(({ code }) => code === 'more')) return undefined;
  const named = new Set(before.warnings.flatMap(({ path: [key, name] }) => (key === 'tables' ? [name] : [])));
  // What SQL files say of a table is put together with what YAML says of it.
  for (const { yaml } of before.parts) {
    if (yaml === undefined || !ANY_TABLES.test(yaml)) continue;
    const cut = cutTables(yaml);
    if (!cut) return undefined;
    for (const { name } of cut.blocks) named.add(name);
  }
  const parts: CutPart[] = [];
  const changed = new Set<string>();
  const was = new Map<string, TableBlock>();
  for (const { path, text: then, yaml } of [
    { path: '', text: before.text, yaml: undefined },
    ...before.parts,
  ]) {
    if (yaml !== undefined) continue;
    const text = path === '' ? source.text : textOf(source, path);
    if (text === undefined) return undefined;
    const now = cutTables(text);
    const cutThen = text === then ? now : cutTables(then);
    if (!now || !cutThen) {
      if (text !== then || ANY_TABLES.test(text)) return undefined;
      continue;
    }
    if (now.before !== cutThen.before || now.after !== cutThen.after) return undefined;
    const ofThisPart = new Map(cutThen.blocks.map((block) => [block.name, block]));
    for (const block of now.blocks) {
      const earlier = ofThisPart.get(block.name);
      if (earlier?.text !== block.text) changed.add(block.name);
      else if (was.has(block.name)) named.add(block.name);
      else was.set(block.name, earlier);
      ofThisPart.delete(block.name);
    }
    for (const removed of ofThisPart.keys()) changed.add(removed);
    parts.push({ path, text, now });
  }
  if (changed.size > MOST_CHANGED) return undefined;
  const mentionsChanged = mentionOf(changed);
  const earlierTables = new Map(before.config.tables.map((table) => [table.name, table]));
  const tables = new Map<string, UnreadTable>();
  const names = new Set<string>();
  const firsts = new Set(parts.map(({ now }) => now.blocks[0]?.name));
  for (const { now } of parts) {
    for (const { name, text, line } of now.blocks) {
      names.add(name);
      const raw = before.tables[name];
      const table = earlierTables.get(name);
      const earlier = was.get(name);
      // A part of which nothing were left would be no map any more.
      if (!raw || !table || !earlier || changed.has(name) || named.has(name) || firsts.has(name)) continue;
      if (HIDDEN.test(text) || mentionsChanged.test(text)) continue;
      tables.set(name, { raw, table: movedTable(table, line - earlier.line) });
    }
  }
  if (tables.size < names.size * LEAST_UNREAD) return undefined;
  const texts = new Map(parts.map((part) => [part.path, part]));
  return {
    tables,
    names: [...names],
    toRead(path, text) {
      const part = texts.get(path);
      // Written meanwhile, it is read as a whole, and what it says of an unread table shows that.
      return part?.text === text ? withoutBlocks(part.now, (name) => tables.has(name)) : text;
    },
  };
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
