// Hints for unknown types, which often belong to an extension that is not installed.
import { findExtension } from '../../../config/check/tables/extension-types.ts';
import { closest } from '../../../lib/text/closest-word.ts';
import { isDatabaseError } from '../../../postgres/pg-error.ts';

/** Returns a hint for an error about a missing type, or null for other errors. `declared`: names of declared types. */
export function unknownTypeHint(error: Error, declared: readonly string[] = []): string | null {
  if (!isDatabaseError(error, 'undefined_object')) return null;
  const name = /^type "(.+)" does not exist/.exec(error.message)?.[1];
  if (name === undefined) return null;
  const type = name
    .replace(/^.*\./, '')
    .replace(/(\[\])+$/, '')
    .toLowerCase();
  const near = closest(type, declared);
  if (near !== undefined) return `Did you mean ${near}?`;
  const extension = findExtension(type);
  return extension === undefined
    ? 'If an extension provides the type, add it under extensions. Otherwise declare the type under types.'
    : `It is a type of an extension: write extensions: [${extension}].`;
}
