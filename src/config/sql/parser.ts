// The parser of PostgreSQL, compiled to WebAssembly. It reads statements exactly like the server. Texts of expressions
// and queries are copied from the file as written.
import { setFlagsFromString } from 'node:v8';
import type { Node } from '@pgsql/types';
import type * as LibPgQuery from 'libpg-query';

/** A range in a file: offset of the first character, and offset after the last. */
export type Extent = { readonly start: number; readonly end: number };

export type Token = Extent & {
  /** Text as written. Unquoted words are in lower case. */
  readonly text: string;
  readonly isComment: boolean;
};

export type Statement = Extent & {
  readonly node: Node;
  /** Tokens without comments. */
  readonly tokens: readonly Token[];
  /** Comments between the previous statement and this one. */
  readonly comments: readonly string[];
  /** Converts the location of a node to an offset in the file. */
  readonly at: (location: number | undefined) => number;
};

export type ParsedFile =
  | { readonly ok: true; readonly statements: readonly Statement[] }
  | { readonly ok: false; readonly message: string; readonly offset: number };

type Library = Pick<typeof LibPgQuery, 'parseSync' | 'scanSync' | 'hasSqlDetails'>;

let library: Library | undefined;

/** Loads the parser once per process, before the first call of `parseSql`. Takes about 40 ms. */
export async function loadSqlParser(): Promise<void> {
  if (library) return;
  // The optimizing compiler of V8 uses 500 MB for the functions of this parser without making it faster. V8 reads the
  // flags when functions are called, so they remain set.
  for (const flag of ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering']) setFlagsFromString(flag);
  const loaded = await import('libpg-query');
  await loaded.loadModule();
  library = loaded;
}

export function parseSql(text: string): ParsedFile {
  if (text.trim() === '') return { ok: true, statements: [] };
  if (!library) throw new Error('parseSql was called before loadSqlParser');
  const offsets = characterOffsets(text);
  let stmts: NonNullable<ReturnType<Library['parseSync']>['stmts']>;
  let scanned: ReturnType<Library['scanSync']>;
  try {
    stmts = library.parseSync(text).stmts ?? [];
    scanned = library.scanSync(text);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    // Unlike locations of nodes, this position counts characters.
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

/** Converts byte offsets of the parser to character offsets. */
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
