// Checks before any worker starts: the runtime and the files exist, and no public function uses the service client.
import { accessSync, constants, readFileSync, statSync } from 'node:fs';
import { isAbsolute, relative, resolve } from 'node:path';
import type { CodeFunction } from '../../config/config.ts';
import { findSyntaxFault } from '../../config/check/syntax/handler-syntax.ts';
import { mentionsServiceClient } from '../../config/check/service-client.ts';
import { Problem } from '../../problem/problem.ts';

export function checkFunctions(functions: readonly CodeFunction[], root: string, runtime: string): void {
  if (functions.length === 0) return;
  checkRuntime(runtime);
  for (const fn of functions) checkFunction(fn, root);
}

function checkRuntime(runtime: string): void {
  try {
    accessSync(runtime, constants.X_OK);
  } catch (cause) {
    throw new Problem('no_runtime', 500, 'The JavaScript runtime for code functions is missing', {
      cause,
      details: `${runtime} cannot be executed`,
      hint: 'Install Node 22 or newer where functions are served.',
    });
  }
}

function checkFunction(fn: CodeFunction, root: string): void {
  const { name, file } = fn;
  const path = resolve(root, file);
  const inside = relative(root, path);
  if (isAbsolute(file) || inside.startsWith('..')) {
    throw new Problem('function_file_outside', 500, `The file of function ${name} is outside the project`, {
      details: file,
      hint: 'Use a path relative to svc.yaml that stays in its directory.',
    });
  }
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) {
    throw new Problem('function_file_missing', 500, `The file of function ${name} does not exist`, {
      details: file,
      hint: 'Create it, or correct functions.*.file in svc.yaml. If you use a bundle, run `svc bundle` again.',
    });
  }
  checkSource(fn, readFileSync(path, 'utf8'));
}

/** Checks a handler's source text without running it. */
export function checkSource({ name, file, authRequired }: CodeFunction, source: string): void {
  if (!authRequired && mentionsServiceClient(source)) {
    const message = `The public function ${name} uses ctx.serviceClient`;
    throw new Problem('service_client_in_public_function', 500, message, {
      details: `${file}: serviceClient bypasses row-level security, and anyone can call this function.`,
      hint: 'Declare it with auth_required: true, or use ctx.client.',
    });
  }
}

/** Rejects a handler's source text that does not parse. Starts a Node process, so only changed sources are checked. */
export async function checkSyntax({ name, file }: CodeFunction, source: string): Promise<void> {
  const fault = await findSyntaxFault(file, source);
  if (fault === undefined) return;
  throw new Problem('function_syntax_error', 422, `The source of function ${name} has a syntax error`, {
    details: `${file}: ${fault}`,
    hint: 'Nothing was changed; the previous version is still served. Correct the source and save again.',
  });
}
