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

/** Documents, directives, other line ends, also those of JavaScript, and tabs; anchors, which say something elsewhere. */
const UNUSUAL = /^(?:---|\.\.\.|%)|[\r\t\u2028\u2029\uFEFF]|(?:^|[\s,[{:])&[^\s&]/m;
const SECTION = /^tables: *(?:#.*)?$/gm;
/** A line that says something, up to its first word. */
const LINE = /^ *(?=[^ \n#])/gm;
const KEY = /([A-Za-z_][\w.-]*):(?= |\n|$)/y;

/** Undefined where there is no section of tables, or one in another form. */
export function cutTables(text: string): CutText | undefined {
  if (UNUSUAL.test(text)) return undefined;
  const [section, second] = text.matchAll(SECTION);
  if (!section || second) return undefined;
  const [first] = matchFrom(LINE, text, section.index + section[0].length);
  const indent = first?.[0].length ?? 0;
  if (!first || indent === 0) return undefined;
  const keys: Array<{ name: string; at: number }> = [];
  let end = text.length;
  // Lines that stand further in belong to a table.
  const outerLine = new RegExp(`^ {0,${indent}}(?=[^ \\n#])`, 'gm');
  for (const { index, 0: spaces } of matchFrom(outerLine, text, first.index)) {
    if (spaces === '') {
      end = index;
      break;
    }
    KEY.lastIndex = index + indent;
    const name = spaces.length === indent ? KEY.exec(text)?.[1] : undefined;
    if (name === undefined) return undefined;
    keys.push({ name, at: index });
  }
  const before = text.slice(0, first.index);
  let line = lineBreaks(before) + 1;
  const blocks = keys.map(({ name, at }, index) => {
    const block = { name, line, text: text.slice(at, keys[index + 1]?.at ?? end) };
    line += lineBreaks(block.text);
    return block;
  });
  return { blocks, before, after: text.slice(end) };
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

function matchFrom(pattern: RegExp, text: string, at: number): RegExpStringIterator<RegExpExecArray> {
  pattern.lastIndex = at;
  return text.matchAll(pattern);
}
