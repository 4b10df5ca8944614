// Provisioning for tests with a database URL, and the roles' addresses as URLs for other clients.
import { silentLog, type Log } from '../../src/log/log.ts';
import type { DatabaseAddress } from '../../src/postgres/address/database-address.ts';
import { oneAddress } from '../../src/postgres/address/database-addresses.ts';
import { provision, type Provisioned } from '../../src/provision/provision.ts';

export type ProvisionedAt = Provisioned & { readonly ownerUrl: string; readonly authenticatorUrl: string };

export async function provisionAt(url: string, log: Log = silentLog): Promise<ProvisionedAt> {
  const provisioned = await provision(oneAddress(url), { log });
  return {
    ...provisioned,
    ownerUrl: addressUrl(provisioned.owner.data),
    authenticatorUrl: addressUrl(provisioned.authenticator.data),
  };
}

/** The address as a URL that every client reads alike. */
export function addressUrl({ targets, user, password, database }: DatabaseAddress): string {
  const [{ host, port }] = targets;
  const secret = password === undefined ? '' : `:${encodeURIComponent(password)}`;
  const shown = host.includes(':') && !host.startsWith('/') ? `[${host}]` : encodeURIComponent(host);
  return `postgres://${encodeURIComponent(user)}${secret}@${shown}:${port}/${encodeURIComponent(database)}`;
}
