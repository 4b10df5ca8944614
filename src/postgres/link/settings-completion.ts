// Batches on a session that lacks its parameters carry them in their settings statement. They end with the transaction,
// so nothing stays on a session that somebody else gets next.
import type { WireStatement } from '../wire/statement.ts';
import { setConfig, type SessionParameters } from './session-parameters.ts';

export class SettingsCompletion {
  readonly #names: readonly string[];
  readonly #values: readonly string[];

  constructor(lacking: SessionParameters) {
    this.#names = lacking.map(([name]) => name);
    this.#values = lacking.map(([, value]) => value);
  }

  /** The statement that is written in place of this one. */
  complete(statement: WireStatement): WireStatement {
    if (statement.isSettings !== true) return statement;
    const { length } = statement.values;
    const calls = this.#names.map((name, at) => setConfig(name, `$${length + at + 1}`));
    return {
      ...statement,
      text: [statement.text, ...calls].join(', '),
      values: [...statement.values, ...this.#values],
      // Its name stands for the shorter text.
      name: undefined,
    };
  }
}
