// OPTIONS: the methods of a resource according to the catalog; privileges do not matter.
import type { Exchange } from '../exchange.ts';
import { allowedMethods } from '../plan/allowed-methods.ts';
import { findOverloads, findRelation } from '../plan/exposed.ts';
import { routineNotFound } from '../problem.ts';

/** Responds without an API key, because the result is the same for every caller. */
export async function options({
  request,
  exposed,
  reply,
}: Pick<Exchange, 'request' | 'exposed' | 'reply'>): Promise<void> {
  reply.code(200);
  reply.header('allow', allowed(request.resource));
  void reply.send();

  function allowed(resource: typeof request.resource): string {
    switch (resource.kind) {
      case 'root':
        return 'OPTIONS,GET,HEAD';
      case 'relation':
        return allowedMethods(findRelation(exposed, request.schema, resource.name));
      case 'routine': {
        const overloads = findOverloads(exposed, request.schema, resource.name);
        if (overloads.length === 0) {
          throw routineNotFound(
            `Could not find the function ${request.schema}.${resource.name} in the schema cache`,
            `Searched for the function ${request.schema}.${resource.name}.`,
            'Only functions declared under rpc: in svc.yaml can be called.',
          );
        }
        return overloads.every(({ volatility }) => volatility === 'volatile')
          ? 'OPTIONS,POST'
          : 'OPTIONS,GET,HEAD,POST';
      }
    }
  }
}
