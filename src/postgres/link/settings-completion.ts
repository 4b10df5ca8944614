// Adds missing session parameters to the settings statement of each batch. They end with the transaction, so a shared
// session keeps none of them.
import type { WireStatement } from '../wire/statement.ts';
import { setConfig, type SessionParameters } from './session-parameters.ts';

export class SettingsCompletion {
  readonly #names: readonly string[];
  readonly #values: readonly string[];

  constructor(lacking: SessionParameters) {
    this.#names = lacking.map(([name]) => name);
    this.#values = lacking.map(([, value]) => value);
  }

  /** Returns the statement to send instead. */
  complete(statement: WireStatement): WireStatement {
    if (statement.isSettings !== true) return statement;
    const { length } = statement.values;
    const calls = this.#names.map((name, at) => setConfig(name, `$${length + at + 1}`));
    return {
      ...statement,
      text: [statement.text, ...calls].join(', '),
      values: [...statement.values, ...this.#values],
      // The name identifies the shorter text.
      name: undefined,
    };
  }
}
