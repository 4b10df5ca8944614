// The texts of all files of a configuration, one behind the other: an offset says which file is meant, and where in it.
import type { LineCounter } from 'yaml';
import type { Position } from '../mistakes/mistake.ts';
import type { SvcDocument } from './document.ts';

/** One file. svc.yaml itself comes first, and positions in it name no file. */
export type PartDocument = {
  /** As messages name it. */
  readonly name: string;
  readonly document: SvcDocument;
};

type Section = { readonly file: string | undefined; readonly base: number; readonly lines: LineCounter };

export class CombinedSource {
  readonly text: string;
  readonly #sections: Section[] = [];

  constructor(parts: readonly PartDocument[]) {
    let base = 0;
    for (const { name, document } of parts) {
      this.#sections.push({ file: base === 0 ? undefined : name, base, lines: document.lines });
      base += document.text.length + SEPARATOR.length;
    }
    this.text = parts.map(({ document }) => document.text).join(SEPARATOR);
  }

  /** Offset of the first character of the file at this place in the list. */
  partOffset(index: number): number {
    return this.#sections[index]?.base ?? 0;
  }

  positionAt(offset: number): Position {
    const at = Math.min(offset, this.text.length);
    const { file, base, lines } = this.#sections.findLast((one) => one.base <= at) ?? NOWHERE;
    const { line, col } = lines?.linePos(at - base) ?? { line: 1, col: 1 };
    const position = { line: Math.max(1, line), column: Math.max(1, col) };
    return file === undefined ? position : { ...position, file };
  }
}

/** Or the last line of one file would go on in the next. */
const SEPARATOR = '\n';
const NOWHERE = { file: undefined, base: 0, lines: undefined };
