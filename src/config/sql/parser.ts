// PostgreSQL's own parser, compiled for here: what the server would read is what is read. It says what stands in a
// statement; texts of expressions and queries are cut out of the file as they are written.
import { setFlagsFromString } from 'node:v8';
import type { Node } from '@pgsql/types';
import type * as LibPgQuery from 'libpg-query';

/** A piece of a file: offsets of its first character and of the one after its last. */
export type Extent = { readonly start: number; readonly end: number };

export type Token = Extent & {
  /** As written, but for the case of words that are not in quotes. */
  readonly text: string;
  readonly isComment: boolean;
};

export type Statement = Extent & {
  readonly node: Node;
  /** Without comments. */
  readonly tokens: readonly Token[];
  /** Comments between the statement before and this one. */
  readonly comments: readonly string[];
  /** Offset in the file of an offset that a node names. */
  readonly at: (location: number | undefined) => number;
};

export type ParsedFile =
  | { readonly ok: true; readonly statements: readonly Statement[] }
  | { readonly ok: false; readonly message: string; readonly offset: number };

type Library = Pick<typeof LibPgQuery, 'parseSync' | 'scanSync' | 'hasSqlDetails'>;

let library: Library | undefined;

/** Must have been awaited once in this process before `parseSql` is called. Takes about 40 ms, so only whoever needs it waits. */
export async function loadSqlParser(): Promise<void> {
  if (library) return;
  // The optimizing compiler of V8 takes 500 MB for the functions of this parser, and makes it no faster. V8 reads the
  // flags when functions are called, so they stay.
  for (const flag of ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering']) setFlagsFromString(flag);
  const loaded = await import('libpg-query');
  await loaded.loadModule();
  library = loaded;
}

export function parseSql(text: string): ParsedFile {
  if (text.trim() === '') return { ok: true, statements: [] };
  if (!library) throw new Error('the SQL parser is used before it was loaded');
  const offsets = characterOffsets(text);
  let stmts: NonNullable<ReturnType<Library['parseSync']>['stmts']>;
  let scanned: ReturnType<Library['scanSync']>;
  try {
    stmts = library.parseSync(text).stmts ?? [];
    scanned = library.scanSync(text);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    // Unlike the places of nodes, this one counts characters.
    const cursor = library.hasSqlDetails(error) ? (error.sqlDetails?.cursorPosition ?? 0) : 0;
    return { ok: false, message: error.message, offset: Math.min(cursor, text.length) };
  }
  const tokens = scanned.tokens.map(({ start, end, tokenName }) => {
    const [from, to] = [offsets(start), offsets(end)];
    return {
      start: from,
      end: to,
      text: plain(text.slice(from, to)),
      isComment: tokenName === 'SQL_COMMENT' || tokenName === 'C_COMMENT',
    };
  });
  let before = 0;
  const statements = stmts.flatMap(({ stmt, stmt_location: location = 0, stmt_len: length }) => {
    const limit = length === undefined ? text.length : offsets(location + length);
    const within = tokens.filter(({ start, end }) => start >= before && end <= limit);
    before = limit;
    const own = within.filter(({ isComment, text: word }) => !isComment && word !== ';');
    const [first] = own;
    const last = own.at(-1);
    if (!stmt || !first || !last) return [];
    return [
      {
        node: stmt,
        start: first.start,
        end: last.end,
        tokens: own,
        comments: within
          .filter(({ isComment, start }) => isComment && start < first.start)
          .map((comment) => text.slice(comment.start, comment.end)),
        at: (place: number | undefined) => (place === undefined ? first.start : offsets(place)),
      },
    ];
  });
  return { ok: true, statements };
}

function plain(word: string): string {
  return /^[a-z_]/i.test(word) ? word.toLowerCase() : word;
}

/** The parser counts bytes. */
function characterOffsets(text: string): (bytes: number) => number {
  if (Buffer.byteLength(text) === text.length) return (bytes) => bytes;
  const places = new Map<number, number>([[0, 0]]);
  let bytes = 0;
  let at = 0;
  for (const character of text) {
    bytes += Buffer.byteLength(character);
    at += character.length;
    places.set(bytes, at);
  }
  return (offset) => places.get(offset) ?? text.length;
}
