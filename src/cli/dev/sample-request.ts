// Chooses the request that `svc dev` suggests: an anonymous caller can send it, and it returns data.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CodeFunction, Config, Policy, SqlFunction, Table } from '../../config/config.ts';

/** Returns path and query. `directory`: folder of the configuration file. */
export function sampleRequest(config: Config, directory: string): string {
  const routine = config.rpc.find(isCallableByGet);
  if (routine !== undefined) return `/rest/v1/rpc/${routine.name}${exampleArguments(routine)}`;
  const table = config.tables.find(isReadableByAnyone);
  if (table !== undefined) return `/rest/v1/${table.name}?limit=5`;
  const handler = config.functions.find((entry) => !entry.authRequired && !checksSignature(entry, directory));
  return handler === undefined ? '/auth/v1/settings' : `/functions/v1/${handler.name}`;
}

function isCallableByGet({ expose, authRequired, volatility, args, returns }: SqlFunction): boolean {
  const isPublic = expose && !authRequired && volatility !== 'volatile';
  return isPublic && returns !== 'trigger' && args.every((arg) => !arg.required || arg.type in EXAMPLES);
}

/** Example values of required arguments, keyed by type. */
const EXAMPLES: Readonly<Record<string, string>> = { integer: '1', int: '1', bigint: '1', text: 'hello' };

function exampleArguments({ args }: SqlFunction): string {
  const required = args.filter((arg) => arg.required);
  return required
    .map(({ name, type }, index) => `${index === 0 ? '?' : '&'}${name}=${EXAMPLES[type]}`)
    .join('');
}

function isReadableByAnyone({ schema, rls }: Table): boolean {
  return schema === 'public' && (typeof rls === 'string' || rls.some(allowsEveryRow));
}

function allowsEveryRow({ operations, using, check, to }: Policy): boolean {
  const reaches = to === undefined || to.some((role) => role === 'anon' || role === 'public');
  return reaches && operations.includes('select') && (using ?? check) === 'true';
}

/** Returns whether the function seems to be a webhook, which responds with 401 without a signature. */
function checksSignature({ file }: CodeFunction, directory: string): boolean {
  try {
    return /rawBody|signature/i.test(readFileSync(join(directory, file), 'utf8'));
  } catch {
    return false;
  }
}
