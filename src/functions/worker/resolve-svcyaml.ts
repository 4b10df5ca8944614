// Resolves `import { defineFunction } from 'svcyaml'` in a handler to the running svc. A bundle does not contain the
// package, and a global installation is not in a `node_modules` above the project.
import * as nodeModule from 'node:module';
import { pathToFileURL } from 'node:url';
import { ownModule } from '../../lib/package-files.ts';

/** Name of the published package. A clone of the repository has no importable name. */
const PACKAGE = 'svcyaml';

/**
 * Before any handler is imported. Before Node 22.15, which has no such hooks, npm has to have installed the package.
 */
export function resolveSvcyaml(): void {
  const own = pathToFileURL(ownModule('functions/package/index')).href;
  // Typed as always there.
  const register: typeof nodeModule.registerHooks | undefined = nodeModule.registerHooks;
  register?.({
    resolve: (specifier, context, next) =>
      specifier === PACKAGE ? { url: own, shortCircuit: true } : next(specifier, context),
  });
}
