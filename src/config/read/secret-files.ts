// Secrets from files: SVC_SECRET_KEY_FILE=/run/secrets/key sets SVC_SECRET_KEY to the contents of the file.
import { resolve } from 'node:path';
import { readTextFile } from '../../lib/text/text-file.ts';
import { Problem } from '../../problem/problem.ts';

/** Each variable has a counterpart with the suffix _FILE. */
export const SECRET_VARIABLES = [
  'SVC_DATABASE_URL',
  'SVC_DATABASE_DIRECT_URL',
  'SVC_DATABASE_READ_URL',
  'SVC_PUBLISHABLE_KEY',
  'SVC_SECRET_KEY',
  'SVC_SECRET_KEY_PREVIOUS',
  'SVC_AUTH_ENCRYPTION_KEY',
  'SVC_AUTH_ENCRYPTION_KEY_PREVIOUS',
  'SVC_METRICS_TOKEN',
  'SVC_ERROR_WEBHOOK',
  'SVC_DEPLOY_TOKEN',
  'SVC_IMPORT_SOURCE_URL',
  'SVC_IMPORT_ENCRYPTION_KEYS',
  'SVC_IMPORT_API_KEY',
] as const;

const MAX_BYTES = 64 * 1024;

/** A variable with the suffix _FILE, and the absolute path of its file. */
export type SecretFile = { readonly variable: string; readonly path: string };

/**
 * Replaces the `_FILE` variables of `env` with variables that contain the secrets. `directory`: base of relative paths.
 * A line break at the end of a file is not part of the secret.
 */
export function readSecretFiles(env: Record<string, string | undefined>, directory: string): SecretFile[] {
  const found = SECRET_VARIABLES.flatMap((name) => {
    const variable = `${name}_FILE`;
    const written = env[variable];
    if (!written) return [];
    if (env[name])
      throw refused(`${name} and ${variable} are both set`, 'Remove one of them from the environment.');
    return [{ name, variable, path: resolve(directory, written) }];
  });
  for (const { name, variable, path } of found) {
    env[name] = readSecret(variable, path);
    // Child processes inherit the secret, and would reject both variables together.
    delete env[variable];
  }
  return found;
}

function readSecret(variable: string, path: string): string {
  let text: string;
  try {
    text = readTextFile(path);
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw refused(
      `${variable} cannot be read: ${reason}`,
      'Set it to the path of a file that contains only the secret.',
      cause,
    );
  }
  const secret = text.replace(/\r?\n$/, '');
  if (secret !== '' && Buffer.byteLength(text) <= MAX_BYTES) return secret;
  throw refused(
    `${variable} names ${path}, which is ${secret === '' ? 'empty' : 'larger than 64 KB'}`,
    'Write only the secret into the file.',
  );
}

function refused(message: string, hint: string, cause?: unknown): Problem {
  return new Problem('bad_secret_file', 500, message, { hint, cause });
}
