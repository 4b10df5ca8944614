// The keys of `svc dev`: taken from the environment, and what is missing is made once and kept in `.env`.
import { appendFileSync, chmodSync, existsSync, readFileSync, statSync } from 'node:fs';
import { generateApiKeys, type ApiKeys } from '../../identity/api-key.ts';
import { requireKeys, type Environment } from '../environment.ts';
import type { Terminal } from '../terminal.ts';

export function ensureKeys(file: string, env: Environment, terminal: Terminal): ApiKeys {
  const fresh = generateApiKeys();
  const made: string[] = [];
  const take = (name: string, key: string): string => {
    const present = env[name];
    if (present) return present;
    made.push(`${name}=${key}`);
    return key;
  };
  const publishable = take('SVC_PUBLISHABLE_KEY', fresh.publishable);
  const secret = take('SVC_SECRET_KEY', fresh.secret);
  if (made.length > 0) {
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    const gap = text === '' || text.endsWith('\n') ? '' : '\n';
    // The file holds the secret key: nobody else on the machine may read it.
    const wasOpen = existsSync(file) && (statSync(file).mode & 0o077) !== 0;
    if (wasOpen) chmodSync(file, 0o600);
    appendFileSync(file, `${gap}${made.join('\n')}\n`, { mode: 0o600 });
    terminal.print(`made ${made.length === 2 ? 'both API keys' : 'the missing API key'} in ${file}`);
    if (wasOpen) terminal.print(`${file} holds the secret key now: only you can read it from here on`);
  }
  return requireKeys({ SVC_PUBLISHABLE_KEY: publishable, SVC_SECRET_KEY: secret });
}
