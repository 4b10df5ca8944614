// Which methods a relation accepts, according to the catalog. Privileges do not matter.
import { methodNotForRelation } from '../problem.ts';
import type { ExposedRelation } from './relation.ts';

export function allowedMethods({ insertable, updatable, deletable, primaryKey }: ExposedRelation): string {
  const methods = ['OPTIONS', 'GET', 'HEAD'];
  if (insertable) methods.push('POST');
  if (insertable && updatable && primaryKey.length > 0) methods.push('PUT');
  if (updatable) methods.push('PATCH');
  if (deletable) methods.push('DELETE');
  return methods.join(',');
}

/** Rejects a write that no row could accept, such as an insert into a view over several tables. */
export function checkWritable(method: string, relation: ExposedRelation): void {
  const { insertable, updatable, deletable } = relation;
  const isWritable =
    method === 'POST'
      ? insertable
      : method === 'PATCH'
        ? updatable
        : method === 'DELETE'
          ? deletable
          : insertable && updatable;
  if (!isWritable) throw methodNotForRelation(method, relation.name, allowedMethods(relation));
}
