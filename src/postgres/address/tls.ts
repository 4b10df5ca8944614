// Builds TLS options from the fields of an address.
import { readFileSync } from 'node:fs';
import tls, { type ConnectionOptions } from 'node:tls';
import { UnreadableAddress } from './conninfo.ts';
import type { TlsFields } from './database-address.ts';

/** Refuses by name a file that cannot be read. */
export function checkFiles(fields: TlsFields): void {
  for (const name of ['sslrootcert', 'sslcert', 'sslkey'] as const) {
    const path = fields[name];
    if (path === undefined || (name === 'sslrootcert' && path === 'system')) continue;
    try {
      readFileSync(path);
    } catch (cause) {
      const error = new UnreadableAddress(
        `names a file as ${name} that cannot be read: ${path}`,
        'Give a path that this user may read.',
      );
      error.cause = cause;
      throw error;
    }
  }
}

/**
 * libpq's table: `verify-full` checks the certificate and its name. `verify-ca`, and every other mode with a root
 * certificate, check only the certificate; without one they only encrypt. The files are read for every connection, so
 * renewed certificates take effect.
 */
export function tlsOptions(fields: TlsFields): ConnectionOptions {
  const { sslmode, sslrootcert, sslcert, sslkey, sslnegotiation } = fields;
  const isChecked = sslmode.startsWith('verify-') || sslrootcert !== undefined;
  return {
    rejectUnauthorized: isChecked,
    ...(sslmode === 'verify-full' ? {} : { checkServerIdentity: () => undefined }),
    ...(sslrootcert === undefined
      ? {}
      : { ca: sslrootcert === 'system' ? trusted() : readFileSync(sslrootcert) }),
    ...(sslcert === undefined || sslkey === undefined
      ? {}
      : { cert: readFileSync(sslcert), key: readFileSync(sslkey) }),
    ...(sslnegotiation === 'direct' ? { ALPNProtocols: ['postgresql'] } : {}),
  };
}

/** Returns Node's trusted certificates, plus those of the operating system if Node can read them. */
function trusted(): string[] {
  return [...tls.rootCertificates, ...(tls.getCACertificates?.('system') ?? [])];
}
