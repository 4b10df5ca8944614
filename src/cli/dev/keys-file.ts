// The keys of `svc dev`. Reads them from the environment, and creates missing keys in `.env`.
import { appendFileSync, chmodSync, existsSync, readFileSync, statSync } from 'node:fs';
import { generateApiKeys, type ApiKeys } from '../../identity/api-key.ts';
import { requireKeys, type Environment } from '../environment.ts';
import type { Terminal } from '../terminal.ts';

export function ensureKeys(file: string, env: Environment, terminal: Terminal): ApiKeys {
  const fresh = generateApiKeys();
  const made: string[] = [];
  const useOrCreate = (name: string, key: string): string => {
    const present = env[name];
    if (present) return present;
    made.push(`${name}=${key}`);
    return key;
  };
  const publishable = useOrCreate('SVC_PUBLISHABLE_KEY', fresh.publishable);
  const secret = useOrCreate('SVC_SECRET_KEY', fresh.secret);
  if (made.length > 0) {
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    const gap = text === '' || text.endsWith('\n') ? '' : '\n';
    // The file contains the secret key, so no other user of the machine may read it.
    const wasOpen = existsSync(file) && (statSync(file).mode & 0o077) !== 0;
    if (wasOpen) chmodSync(file, 0o600);
    appendFileSync(file, `${gap}${made.join('\n')}\n`, { mode: 0o600 });
    terminal.print(`created ${made.length === 2 ? 'both API keys' : 'the missing API key'} in ${file}`);
    if (wasOpen)
      terminal.print(`${file} now contains the secret key, so its mode was changed: only you can read it`);
  }
  return requireKeys({ SVC_PUBLISHABLE_KEY: publishable, SVC_SECRET_KEY: secret });
}
