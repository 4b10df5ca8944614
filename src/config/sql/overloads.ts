// Several functions of one name: which of them a statement means, and what each is called under `rpc`.
import type { Node } from '@pgsql/types';
import { plainType } from '../schema/overloads.ts';
import type { Declaration } from './declaration.ts';
import { namesIn } from './key-nodes.ts';

type Signed = Pick<Declaration, 'kind' | 'schema' | 'name' | 'inputs'>;

/** Both are functions, and PostgreSQL tells them apart. */
export function areOverloads(a: Signed, b: Signed): boolean {
  return a.kind === 'rpc' && b.kind === 'rpc' && renderSignature(a) !== renderSignature(b);
}

/** `f(integer, text)`, with its schema unless that is `public`. */
export function renderSignature({ schema, name, inputs = [] }: Omit<Signed, 'kind'>): string {
  return `${schema === 'public' ? '' : `${schema}.`}${name}(${inputs.join(', ')})`;
}

/** The types that COMMENT or GRANT has in brackets; undefined without brackets. */
export function writtenInputs(object: Node | undefined): readonly string[] | undefined {
  if (!object || !('ObjectWithArgs' in object) || object.ObjectWithArgs.args_unspecified === true)
    return undefined;
  return (object.ObjectWithArgs.objargs ?? []).map((one) => {
    if (!('TypeName' in one)) return '';
    const { names, arrayBounds = [] } = one.TypeName;
    return plainType(`${namesIn(names).join('.')}${arrayBounds.length > 0 ? '[]' : ''}`);
  });
}
