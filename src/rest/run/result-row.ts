// The single row of a result, keyed by column name.
import type { WireResult } from '../../postgres/wire/wire.ts';
import type { ResultColumn } from '../sql/render-result.ts';

export class ResultRow {
  readonly #row: ReadonlyArray<Buffer | null>;
  readonly #columns: readonly ResultColumn[];

  constructor(result: WireResult | undefined, columns: readonly ResultColumn[]) {
    this.#row = result?.rows[0] ?? [];
    this.#columns = columns;
  }

  bytes(column: ResultColumn): Buffer | undefined {
    const at = this.#columns.indexOf(column);
    return at < 0 ? undefined : (this.#row[at] ?? undefined);
  }

  text(column: ResultColumn): string | undefined {
    return this.bytes(column)?.toString('utf8');
  }

  number(column: ResultColumn): number | undefined {
    const text = this.bytes(column)?.toString('latin1');
    return text === undefined ? undefined : Number(text);
  }
}
