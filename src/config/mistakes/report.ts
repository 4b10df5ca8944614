// Renders mistakes for people: position, the line with a caret, the message and the hint.
import { styleText } from 'node:util';
import { byPosition, renderPath, type Mistake } from './mistake.ts';

export type ReportOptions = {
  readonly file: string;
  readonly text: string;
  /** Texts of included files, by name. */
  readonly included?: ReadonlyMap<string, string> | undefined;
  readonly color?: boolean | undefined;
};

const MAX_LINE_LENGTH = 160;
/** Number of characters on either side of the mistake that are searched for secrets in a very long line. */
const MAX_CONTEXT_LENGTH = 2000;

export function renderMistakes(mistakes: readonly Mistake[], options: ReportOptions): string {
  const splitLines = (file: string | undefined): readonly string[] =>
    (file === undefined ? options.text : (options.included?.get(file) ?? '')).split('\n');
  const files = new Map(
    [...new Set(mistakes.map(({ position }) => position.file))].map((file) => [file, splitLines(file)]),
  );
  return [...mistakes]
    .sort(byPosition)
    .map((mistake) => {
      const { file, line } = mistake.position;
      return renderMistake(mistake, files.get(file)?.[line - 1] ?? '', options);
    })
    .join('\n\n');
}

/**
 * Masks secrets, because reports end up in logs and tickets. The mask has the same length, so that the caret stays in
 * place.
 */
function withoutSecrets(line: string, { path, position, length }: Mistake): string {
  const start = position.column - 1;
  const near = Math.max(0, start - MAX_CONTEXT_LENGTH);
  const blot = (_whole: string, before: string, value: string): string =>
    before + (value.includes('${') ? value : '•'.repeat(value.length));
  const shown =
    ' '.repeat(near) +
    line
      .slice(near, start + MAX_CONTEXT_LENGTH)
      .replaceAll(SECRET_VALUE, blot)
      .replaceAll(PASSWORD_IN_URL, blot);
  // Values of environment variables of code functions can be secrets under any name.
  if (path[0] !== 'functions' || path[2] !== 'env') return shown;
  return (
    shown.slice(0, start) + blot('', '', shown.slice(start, start + length)) + shown.slice(start + length)
  );
}

const SECRET_VALUE = new RegExp(
  String.raw`\b(?!refresh_tokens\b)(\w*(?:api_?key|access_key|access_key_id|password|passwd|token|secret)` +
    String.raw`\w?["']?\s*:\s*)` +
    String.raw`("[^"]*"?|'[^']*'?|[^\s,}\]]+)`,
  'gi',
);
const PASSWORD_IN_URL = /(:\/\/[^\s:/@]{0,200}:)([^\s@]{1,200})(?=@)/g;

const TONES = { error: 'red', warning: 'yellow', note: 'dim' } as const;

function renderMistake(mistake: Mistake, line: string, { file, color }: ReportOptions): string {
  const paint = (style: 'red' | 'yellow' | 'bold' | 'dim', text: string): string =>
    color ? styleText(style, text, { validateStream: false }) : text;
  const tone = TONES[mistake.severity];
  const { line: lineNumber, column, file: name = file } = mistake.position;
  const path = renderPath(mistake.path);
  const gutter = String(lineNumber);
  const place = `${name}:${lineNumber}:${column}`;
  const head = `${place} ${paint(tone, mistake.severity)} ${path === '' ? '' : paint('bold', path)}`;
  // Show only a section of a very long line.
  const from = Math.max(0, column - 1 - MAX_LINE_LENGTH / 2);
  const shown = withoutSecrets(line, mistake)
    .slice(from, from + MAX_LINE_LENGTH)
    .replaceAll('\t', ' ')
    .trimEnd();
  const caret =
    ' '.repeat(column - 1 - from) +
    '^'.repeat(Math.max(1, Math.min(mistake.length, shown.length - (column - 1 - from))));
  const rows = [
    head.trimEnd(),
    `  ${paint('dim', `${gutter} |`)} ${shown}`,
    `  ${paint('dim', `${' '.repeat(gutter.length)} |`)} ${paint(tone, caret)}`,
    `  ${mistake.message}`,
  ];
  return [...rows, `  → ${mistake.hint}`].join('\n');
}
