// What an address says about TLS, for the client that connects.
import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';
import { Problem } from '../../problem/problem.ts';
import type { DatabaseAddress } from './database-address.ts';

/** What `pg` is told about TLS. Any mode but `disable` and `no-verify` verifies the certificate and its name. */
export function tlsOptions({ tls }: DatabaseAddress): boolean | ConnectionOptions {
  const { sslmode, sslrootcert, sslcert, sslkey, sslnegotiation, uselibpqcompat } = tls;
  if (sslmode === 'disable') return false;
  const files = {
    ca: file('sslrootcert', sslrootcert),
    cert: file('sslcert', sslcert),
    key: file('sslkey', sslkey),
  };
  const options: ConnectionOptions = Object.fromEntries(
    Object.entries(files).filter(([, text]) => text !== undefined),
  );
  if (sslmode === undefined && Object.keys(options).length === 0) return sslnegotiation === 'direct';
  const unverified = sslmode === 'no-verify' || (uselibpqcompat === 'true' && isUnverified(sslmode, options));
  return unverified ? { ...options, rejectUnauthorized: false } : options;
}

/** As libpq treats these modes; used with uselibpqcompat=true. */
function isUnverified(sslmode: string | undefined, { ca }: ConnectionOptions): boolean {
  return sslmode === 'allow' || sslmode === 'prefer' || (sslmode === 'require' && ca === undefined);
}

function file(name: string, path: string | undefined): string | undefined {
  if (path === undefined || (name === 'sslrootcert' && path === 'system')) return undefined;
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    throw new Problem(
      'bad_database_url',
      500,
      `The file that SVC_DATABASE_URL names as ${name} cannot be read: ${path}`,
      {
        cause,
        hint: 'Give a path that this user may read.',
      },
    );
  }
}
