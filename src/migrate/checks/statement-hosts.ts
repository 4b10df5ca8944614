// Checks that rules and statistics belong to a declared table or view. svc must not change tables that it does not
// manage.
import { type MigrationProblem, problem } from '../problem.ts';
import { objectKey, type SchemaModel, declaredViews } from '../schema/model.ts';
import { declaredStatements } from '../schema/statements.ts';

export function missingHosts(model: SchemaModel): MigrationProblem[] {
  const known = new Set([...model.tables, ...declaredViews(model)].map(objectKey));
  return declaredStatements(model).flatMap(({ host, kind, at }) =>
    host === null || known.has(objectKey(host))
      ? []
      : [
          problem(
            'MIG-101',
            at,
            `the ${kind === 'rule' ? 'rule' : 'statement'} belongs to ` +
              `${objectKey(host).replace(/^public\./, '')}, which the file does not declare`,
            'Declare it under tables or views.',
          ),
        ],
  );
}
