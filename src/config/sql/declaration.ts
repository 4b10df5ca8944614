// What one statement of an SQL file declares, in the words of svc.yaml.
import type { Extent, Statement } from './parser.ts';
import type { KeyMap } from './key-nodes.ts';

/**
 * `name`: under `rpc`, `views`, `types`, `sequences` or `statements`; of a trigger, the table or view that it is of, or
 * `auth.users`.
 */
export type Declaration = {
  readonly kind: 'rpc' | 'views' | 'types' | 'sequences' | 'statements' | 'trigger';
  readonly schema: string;
  readonly name: string;
  /** Of a function: the types by which PostgreSQL tells it from others of its name. */
  readonly inputs?: readonly string[];
  readonly keys: KeyMap;
  readonly extent: Extent;
  /** What a rule or statistics are of. */
  readonly host?: { readonly schema: string; readonly name: string } | undefined;
};

/** A statement that cannot be taken, and what to do instead. */
export class Refusal extends Error {
  readonly extent: Extent;
  readonly hint: string;

  constructor(message: string, hint: string, extent: Extent) {
    super(message);
    this.name = 'Refusal';
    this.hint = hint;
    this.extent = extent;
  }
}

/** The statement with the text that it stands in. */
export type Written = { readonly statement: Statement; readonly text: string };

/** First line of a statement: what is underlined where nothing smaller is meant. */
export function statementHead({ statement, text }: Written): Extent {
  const { start, end } = statement;
  const line = text.indexOf('\n', start);
  return { start, end: line < 0 ? end : Math.min(line, end) };
}

export function refuse(
  written: Written,
  message: string,
  hint: string,
  extent = statementHead(written),
): never {
  throw new Refusal(message, hint, extent);
}

/** `-- svc: renamed_from=old` before a statement. */
export function renamedFrom(written: Written): string | undefined {
  let from: string | undefined;
  for (const comment of written.statement.comments) {
    const [, said] = /^--\s*svc:\s*(.*)$/.exec(comment.trim()) ?? [];
    if (said === undefined) continue;
    const [, name] = /^renamed_from\s*=\s*(\S+)$/.exec(said.trim()) ?? [];
    if (name === undefined)
      refuse(
        written,
        `svc does not know what “${said.trim()}” means`,
        'It understands renamed_from=<old name>.',
      );
    from = name;
  }
  return from;
}
