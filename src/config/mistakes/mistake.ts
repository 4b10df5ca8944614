// A mistake in the file: its place, a message and a remedy. All mistakes are collected before they are reported.

/** Line and column count from 1. `file`: name in messages, undefined for svc.yaml. */
export type Position = { readonly line: number; readonly column: number; readonly file?: string };

/** `note`: the file is valid, but needs something where it runs. */
export type Severity = 'error' | 'warning' | 'note';

export type MistakeCode =
  | 'too-large'
  | 'yaml'
  | 'sql'
  | 'not-a-map'
  | 'unknown-key'
  | 'missing-key'
  | 'wrong-type'
  | 'bad-value'
  | 'duplicate'
  | 'conflict'
  | 'unknown-reference'
  | 'reserved-name'
  | 'name-too-long'
  | 'missing-variable'
  | 'no-primary-key'
  | 'forbidden-variable'
  | 'missing-file'
  | 'open-table'
  | 'policy-ring'
  | 'overlay'
  | 'deprecated'
  | 'more';

export type KeyPath = readonly (string | number)[];

export type Mistake = {
  readonly severity: Severity;
  readonly code: MistakeCode;
  readonly path: KeyPath;
  readonly message: string;
  readonly hint: string;
  readonly position: Position;
  /** Number of underlined characters on that line, at least one. */
  readonly length: number;
};

/** Maximum number of reported mistakes. */
export const MAX_MISTAKES = 100;

export type MistakePlace = {
  readonly text: string;
  readonly position: Position;
  readonly offset: number;
  readonly length: number;
};

export type MistakeText = {
  readonly code: MistakeCode;
  readonly path: KeyPath;
  readonly message: string;
  readonly hint: string;
  readonly severity?: Severity | undefined;
};

export function makeMistake(place: MistakePlace, mistake: MistakeText): Mistake {
  const { code, path, message, hint, severity = 'error' } = mistake;
  // Underline on one line only, and at least one character.
  const lineEnd = place.text.indexOf('\n', place.offset);
  const room = (lineEnd < 0 ? place.text.length : lineEnd) - place.offset;
  const length = Math.max(1, Math.min(place.length, room));
  return { severity, code, path, message, hint, position: place.position, length };
}

/** Scans the text up to the offset. Serves files without a line counter. */
export function positionIn(text: string, offset: number): Position {
  const before = text.slice(0, Math.min(offset, text.length));
  return { line: before.split('\n').length, column: before.length - before.lastIndexOf('\n') };
}

/** `tables.todos.fields[2].type` */
export function renderPath(path: KeyPath): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    return text === '' ? part : `${text}.${part}`;
  }, '');
}

/** Returns at most MAX_MISTAKES mistakes in the order of the file. */
export function inOrder(mistakes: readonly Mistake[]): readonly Mistake[] {
  const sorted = [...mistakes].sort(byPosition);
  const last = sorted[MAX_MISTAKES - 1];
  if (!last || sorted.length === MAX_MISTAKES) return sorted;
  const message = `only the first ${MAX_MISTAKES} mistakes are listed`;
  return [
    ...sorted.slice(0, MAX_MISTAKES),
    { ...last, code: 'more', path: [], message, hint: 'Correct these first.' },
  ];
}

/** svc.yaml comes first. */
export function byPosition({ position: a }: Mistake, { position: b }: Mistake): number {
  if (a.file !== b.file) return (a.file ?? '') < (b.file ?? '') ? -1 : 1;
  return a.line - b.line || a.column - b.column;
}
