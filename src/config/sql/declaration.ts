// Result of reading one statement of an SQL file, as keys of svc.yaml.
import type { Extent, Statement } from './parser.ts';
import type { KeyMap } from './key-nodes.ts';

/**
 * `name`: key under `rpc`, `views`, `types`, `sequences` or `statements`. For a trigger: its table or view, or
 * `auth.users`.
 */
export type Declaration = {
  readonly kind: 'rpc' | 'views' | 'types' | 'sequences' | 'statements' | 'trigger';
  readonly schema: string;
  readonly name: string;
  /** Input types of a function, which identify the overload. */
  readonly inputs?: readonly string[];
  readonly keys: KeyMap;
  readonly extent: Extent;
  /** Table or view of a rule, or table of statistics. */
  readonly host?: { readonly schema: string; readonly name: string } | undefined;
};

/** A rejected statement, with a hint. */
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

/** A statement, and the text of its file. */
export type Written = { readonly statement: Statement; readonly text: string };

/** Returns the first line of a statement, which messages underline by default. */
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

/** Reads the comment `-- svc: renamed_from=old` before a statement. */
export function renamedFrom(written: Written): string | undefined {
  let from: string | undefined;
  for (const comment of written.statement.comments) {
    const [, annotation] = /^--\s*svc:\s*(.*)$/.exec(comment.trim()) ?? [];
    if (annotation === undefined) continue;
    const [, name] = /^renamed_from\s*=\s*(\S+)$/.exec(annotation.trim()) ?? [];
    if (name === undefined)
      refuse(written, `unknown annotation “${annotation.trim()}”`, 'Write renamed_from=<old name>.');
    from = name;
  }
  return from;
}
