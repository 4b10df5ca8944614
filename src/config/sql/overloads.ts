// Overloaded functions: resolves the overload that a statement refers to, and derives keys under `rpc`.
import type { Node } from '@pgsql/types';
import { plainType } from '../schema/overloads.ts';
import type { Declaration } from './declaration.ts';
import { namesIn } from './key-nodes.ts';

type Signed = Pick<Declaration, 'kind' | 'schema' | 'name' | 'inputs'>;

/** Returns true for two functions that PostgreSQL distinguishes. */
export function areOverloads(a: Signed, b: Signed): boolean {
  return a.kind === 'rpc' && b.kind === 'rpc' && renderSignature(a) !== renderSignature(b);
}

/** Returns `f(integer, text)`, with the schema unless it is `public`. */
export function renderSignature({ schema, name, inputs = [] }: Omit<Signed, 'kind'>): string {
  return `${schema === 'public' ? '' : `${schema}.`}${name}(${inputs.join(', ')})`;
}

/** Returns the argument types in a COMMENT or GRANT, or undefined without parentheses. */
export function writtenInputs(object: Node | undefined): readonly string[] | undefined {
  if (!object || !('ObjectWithArgs' in object) || object.ObjectWithArgs.args_unspecified === true)
    return undefined;
  return (object.ObjectWithArgs.objargs ?? []).map((argument) => {
    if (!('TypeName' in argument)) return '';
    const { names, arrayBounds = [] } = argument.TypeName;
    return plainType(`${namesIn(names).join('.')}${arrayBounds.length > 0 ? '[]' : ''}`);
  });
}
