// Where each table of a YAML text stands, told by lines and indentation alone: much faster than reading it. Knows only the
// plain form that people write; what is not certain to mean the same to a reader of YAML is not cut.

export type TableBlock = {
  readonly name: string;
  /** Of its key, from 1. */
  readonly line: number;
  /** Whole lines, from its key up to the next one or to the end of the section. */
  readonly text: string;
};

export type CutText = {
  /** In the order of the text. */
  readonly blocks: readonly TableBlock[];
  /** Up to and with the line `tables:`, and comments below it. */
  readonly before: string;
  readonly after: string;
};

/** Documents, directives, other line ends and tabs; anchors, which say something elsewhere. */
const UNUSUAL = /^(?:---|\.\.\.|%)|[\r\t\uFEFF]|(?:^|[\s,[{:])&[^\s&]/m;
const SECTION = /^tables: *(?:#.*)?$/gm;
const INDENTATION = / */y;
const KEY = /([A-Za-z_][\w.-]*):(?= |\n|$)/y;

/** Undefined where there is no section of tables, or one in another form. */
export function cutTables(text: string): CutText | undefined {
  if (UNUSUAL.test(text)) return undefined;
  const [section, second] = text.matchAll(SECTION);
  if (!section || second) return undefined;
  const keys: Array<{ name: string; at: number; line: number }> = [];
  let indent = 0;
  let line = lineBreaks(text.slice(0, section.index)) + 1;
  let at = nextLine(text, section.index);
  for (; at < text.length; at = nextLine(text, at)) {
    line += 1;
    const spaces = matchAt(INDENTATION, text, at)?.[0].length ?? 0;
    const first = text[at + spaces];
    if (first === undefined || first === '\n' || first === '#') continue;
    if (keys.length === 0) indent = spaces;
    if (spaces === 0) break;
    if (spaces > indent) continue;
    const name = spaces === indent ? matchAt(KEY, text, at + spaces)?.[1] : undefined;
    if (name === undefined) return undefined;
    keys.push({ name, at, line });
  }
  const [firstKey] = keys;
  if (!firstKey) return undefined;
  const blocks = keys.map(({ name, at: start, line: first }, index) => ({
    name,
    line: first,
    text: text.slice(start, keys[index + 1]?.at ?? at),
  }));
  return { blocks, before: text.slice(0, firstKey.at), after: text.slice(at) };
}

/** The text with nothing but line ends where a table is left out, so that everything else stays in its line. */
export function withoutBlocks(
  { blocks, before, after }: CutText,
  isLeftOut: (name: string) => boolean,
): string {
  const texts = blocks.map(({ name, text }) => (isLeftOut(name) ? '\n'.repeat(lineBreaks(text)) : text));
  return [before, ...texts, after].join('');
}

function lineBreaks(text: string): number {
  let count = 0;
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1)) count += 1;
  return count;
}

function nextLine(text: string, at: number): number {
  const end = text.indexOf('\n', at);
  return end < 0 ? text.length : end + 1;
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}
