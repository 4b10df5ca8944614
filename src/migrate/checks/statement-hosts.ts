// Rules and statistics are of a table or view of the file: what they do to a table of others, others would have to know.
import { type MigrationProblem, problem } from '../problem.ts';
import { keyOf, type SchemaModel, viewsOf } from '../schema/model.ts';
import { statementsOf } from '../schema/statements.ts';

export function unknownHosts(model: SchemaModel): MigrationProblem[] {
  const known = new Set([...model.tables, ...viewsOf(model)].map(keyOf));
  return statementsOf(model).flatMap(({ host, kind, at }) =>
    host === null || known.has(keyOf(host))
      ? []
      : [
          problem(
            'MIG-101',
            at,
            `there is no table ${keyOf(host).replace(/^public\./, '')} in the file that this ${kind === 'rule' ? 'rule' : 'statement'} could be of`,
            'Declare it under tables or views.',
          ),
        ],
  );
}
