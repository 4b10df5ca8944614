// Why no host of an address could be used.
import { isDatabaseError, NeverSent } from '../pg-error.ts';
import { describeTarget, type DatabaseAddress } from '../address/database-address.ts';
import type { Endpoint } from './endpoint.ts';

export type HostFailure = { readonly place: Endpoint; readonly error: unknown };

/** A reachable server without the requested role. */
export class WrongKind extends Error {
  override name = 'WrongKind';
}

/** Every host was tried, and none can be used now. Nothing was sent. */
export class NoHost extends NeverSent {
  override name = 'NoHost';
  /** Reasons, one line for each attempt. */
  readonly reasons: readonly string[];
  /** True if hosts answer but none accepts writes, or none is a standby where one is required. */
  readonly isWrongKind: boolean;

  constructor(address: DatabaseAddress, failures: readonly HostFailure[]) {
    super(failures.at(-1)?.error ?? new Error(`no host in ${address.describe()}`));
    this.reasons = failures.map(({ place, error }) => {
      const { target, ip } = place;
      const at = ip === undefined || ip === target.host ? '' : ` (${ip})`;
      return `${describeTarget(target)}${at}: ${describeReason(error)}`;
    });
    this.message = this.reasons.join('; ');
    this.isWrongKind = failures.some(({ error }) => error instanceof WrongKind);
  }
}

function describeReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // An error with several IP addresses, or of a socket, has only a code.
  return error.message === '' ? ((error as NodeJS.ErrnoException).code ?? error.name) : error.message;
}

/** The server demands an authentication that is impossible, or the address demands an unavailable feature. */
export class LoginRefused extends Error {
  override name = 'LoginRefused';
}

/** Whether the error concerns the user, the password or the database, so that another host would return it too. */
export function isFinal(error: unknown): boolean {
  if (error instanceof LoginRefused) return true;
  return isDatabaseError(error) && !isDatabaseError(error, 'shutdown');
}
