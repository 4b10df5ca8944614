// Concatenates the texts of all files of a configuration. An offset identifies a file and a position in it.
import type { LineCounter } from 'yaml';
import type { Position } from '../mistakes/mistake.ts';
import type { SvcDocument } from './document.ts';

/** A file of the configuration. svc.yaml comes first, and its positions do not name a file. */
export type PartDocument = {
  /** Name in messages. */
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

  /** Returns the offset of the first character of a file. */
  partOffset(index: number): number {
    return this.#sections[index]?.base ?? 0;
  }

  positionAt(offset: number): Position {
    const at = Math.min(offset, this.text.length);
    const { file, base, lines } = this.#sections.findLast((section) => section.base <= at) ?? NOWHERE;
    const { line, col } = lines?.linePos(at - base) ?? { line: 1, col: 1 };
    const position = { line: Math.max(1, line), column: Math.max(1, col) };
    return file === undefined ? position : { ...position, file };
  }
}

/** Separates the last line of a file from the first line of the next file. */
const SEPARATOR = '\n';
const NOWHERE = { file: undefined, base: 0, lines: undefined };
