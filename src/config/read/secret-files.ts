// Secrets that a container gets as files: SVC_SECRET_KEY_FILE=/run/secrets/key stands for SVC_SECRET_KEY.
import { resolve } from 'node:path';
import { readTextFile } from '../../lib/text/text-file.ts';
import { Problem } from '../../problem/problem.ts';

/** Each has a twin that ends in _FILE. */
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

/** A variable that names a file, and the file's absolute path. */
export type SecretFile = { readonly variable: string; readonly path: string };

/**
 * Reads what the `_FILE` variables of `env` name, and puts it in the place of these variables. `directory` is where
 * relative paths start from. A line break at the end of a file is no part of the secret.
 */
export function readSecretFiles(env: Record<string, string | undefined>, directory: string): SecretFile[] {
  const found = SECRET_VARIABLES.flatMap((name) => {
    const variable = `${name}_FILE`;
    const written = env[variable];
    if (!written) return [];
    if (env[name])
      throw refused(`${name} and ${variable} are both set`, 'Take one of them out of the environment.');
    return [{ name, variable, path: resolve(directory, written) }];
  });
  for (const { name, variable, path } of found) {
    env[name] = readSecret(variable, path);
    // Programs that are started from here get the secret itself, and would find both.
    delete env[variable];
  }
  return found;
}

function readSecret(variable: string, path: string): string {
  let text: string;
  try {
    text = readTextFile(path);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw refused(
      `${variable} cannot be read: ${why}`,
      'It is the path of a file that holds only the secret.',
      cause,
    );
  }
  const secret = text.replace(/\r?\n$/, '');
  if (secret !== '' && Buffer.byteLength(text) <= MAX_BYTES) return secret;
  throw refused(
    `${variable} names ${path}, which is ${secret === '' ? 'empty' : 'larger than 64 KB'}`,
    'The file holds only the secret.',
  );
}

function refused(message: string, hint: string, cause?: unknown): Problem {
  return new Problem('bad_secret_file', 500, message, { hint, cause });
}
