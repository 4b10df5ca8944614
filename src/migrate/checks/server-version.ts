// What the file says and this server is too old for.
import type { SchemaModel } from '../schema/model.ts';
import { type MigrationProblem, problem } from '../problem.ts';

const HAS_VIRTUAL = 180_000;

export function beyondServer({ tables }: SchemaModel, serverVersion: number): MigrationProblem[] {
  if (serverVersion >= HAS_VIRTUAL) return [];
  return tables.flatMap(({ columns }) =>
    columns
      .filter(({ generated }) => generated?.virtual)
      .map(({ at, name }) =>
        problem(
          'MIG-113',
          `${at}.generated`,
          `${name} is virtual, which PostgreSQL has from version 18 on; this is ${Math.floor(serverVersion / 10_000)}`,
          'Remove virtual: true, and the value is stored.',
        ),
      ),
  );
}
