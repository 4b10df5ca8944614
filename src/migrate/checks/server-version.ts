// Checks that the server supports the declared features.
import type { SchemaModel } from '../schema/model.ts';
import { type MigrationProblem, problem } from '../problem.ts';

/** First version of PostgreSQL with virtual generated columns. */
const VIRTUAL_COLUMNS_VERSION = 180_000;

export function unsupportedFeatures({ tables }: SchemaModel, serverVersion: number): MigrationProblem[] {
  if (serverVersion >= VIRTUAL_COLUMNS_VERSION) return [];
  return tables.flatMap(({ columns }) =>
    columns
      .filter(({ generated }) => generated?.virtual)
      .map(({ at, name }) =>
        problem(
          'MIG-113',
          `${at}.generated`,
          `${name} is virtual, which requires PostgreSQL 18. This server has ` +
            `version ${Math.floor(serverVersion / 10_000)}`,
          'Remove virtual: true to store the value.',
        ),
      ),
  );
}
