// The `sql` tag: the only way to build SQL text. Values become parameters and names are quoted. Other text must be
// marked with `raw`. A fragment is immutable and can be spliced into another one.

export type SqlValue = string | number | bigint | boolean | null | Date | Buffer | ReadonlyArray<unknown>;

type Chunk = string | { readonly value: SqlValue };

export class Sql {
  readonly chunks: readonly Chunk[];

  constructor(chunks: readonly Chunk[]) {
    this.chunks = chunks;
  }

  /** Text with `$1` placeholders, and the values in their order. */
  compile(): { text: string; values: SqlValue[] } {
    const values: SqlValue[] = [];
    let text = '';
    for (const chunk of this.chunks) {
      if (typeof chunk === 'string') text += chunk;
      else text += `$${values.push(chunk.value)}`;
    }
    return { text, values };
  }
}

/** `` sql`select * from ${ident('todos')} where id = ${id}` `` */
export function sql(strings: TemplateStringsArray, ...inserts: ReadonlyArray<Sql | SqlValue>): Sql {
  const chunks: Chunk[] = [];
  strings.forEach((string, index) => {
    chunks.push(string);
    if (index >= inserts.length) return;
    const insert = inserts[index] ?? null;
    if (insert instanceof Sql) chunks.push(...insert.chunks);
    else chunks.push({ value: insert });
  });
  return new Sql(chunks);
}

/** Marks text that is already SQL. Every use needs a reason why its text cannot come from outside. */
export function raw(text: string): Sql {
  return new Sql([text]);
}

export const empty: Sql = new Sql([]);

/** A quoted identifier; several parts are joined with dots: `ident('public', 'todos')`. */
export function ident(...parts: readonly string[]): Sql {
  return new Sql([parts.map(quoteIdent).join('.')]);
}

/** Returns a quoted string constant, for statements without parameters (DDL, SET). */
export function literal(text: string): Sql {
  return new Sql([quoteLiteral(text)]);
}

/** Formats a timestamp for clients: ISO 8601 in UTC with milliseconds. */
export function isoTimestamp(column: string): Sql {
  return raw(`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`);
}

export function join(parts: readonly Sql[], separator = ', '): Sql {
  return new Sql(parts.flatMap((part, index) => (index === 0 ? part.chunks : [separator, ...part.chunks])));
}

export function quoteIdent(name: string): string {
  if (name.includes('\0')) throw new Error('an identifier cannot contain NUL');
  return `"${name.replaceAll('"', '""')}"`;
}

export function quoteLiteral(text: string): string {
  if (text.includes('\0')) throw new Error('a string constant cannot contain NUL');
  const quoted = `'${text.replaceAll("'", "''")}'`;
  // A text with a backslash has the same meaning for both values of standard_conforming_strings only in its E form.
  return quoted.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted;
}

/** Formats a name as the server prints it. */
export function plainOrQuoted(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : quoteIdent(name);
}
