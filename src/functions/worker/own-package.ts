// `import { defineFunction } from 'svcyaml'` in a handler finds the svc that runs it. A bundle has no copy of it, and an svc
// that was installed for the whole machine is in no `node_modules` above the project.
import * as nodeModule from 'node:module';
import { pathToFileURL } from 'node:url';
import { ownModule } from '../../lib/own-files.ts';

/** What the package is called where it is published; in a clone it has no name that could be imported. */
const PACKAGE = 'svcyaml';

/** Before any handler is imported. Before Node 22.15, which has no such hooks, npm has to have installed the package. */
export function provideOwnPackage(): void {
  const own = pathToFileURL(ownModule('functions/package/index')).href;
  // Typed as always there.
  const register: typeof nodeModule.registerHooks | undefined = nodeModule.registerHooks;
  register?.({
    resolve: (specifier, context, next) =>
      specifier === PACKAGE ? { url: own, shortCircuit: true } : next(specifier, context),
  });
}
