// Why no host of an address could be used.
import { isDatabaseError, NeverSent } from '../pg-error.ts';
import { describeTarget, type DatabaseAddress } from '../address/database-address.ts';
import type { Place } from './place.ts';

export type HostFailure = { readonly place: Place; readonly error: unknown };

/** A server that is there, but not of the kind that was asked for. */
export class WrongKind extends Error {
  override name = 'WrongKind';
}

/** Every host was tried, and none can be used now. Nothing was sent. */
export class NoHost extends NeverSent {
  override name = 'NoHost';
  /** One line for each attempt. */
  readonly reasons: readonly string[];
  /** Hosts are there, but none that takes writes (or none that does not, where that was asked for). */
  readonly isWrongKind: boolean;

  constructor(address: DatabaseAddress, failures: readonly HostFailure[]) {
    super(failures.at(-1)?.error ?? new Error(`no host in ${address.describe()}`));
    this.reasons = failures.map(({ place, error }) => {
      const { target, ip } = place;
      const at = ip === undefined || ip === target.host ? '' : ` (${ip})`;
      return `${describeTarget(target)}${at}: ${reasonOf(error)}`;
    });
    this.message = this.reasons.join('; ');
    this.isWrongKind = failures.some(({ error }) => error instanceof WrongKind);
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // Several addresses of one name, or a socket that only says its code.
  return error.message === '' ? ((error as NodeJS.ErrnoException).code ?? error.name) : error.message;
}

/** What the server asks for cannot be given, or what the address asks for not had. */
export class LoginRefused extends Error {
  override name = 'LoginRefused';
}

/** About the user, the password, the database: another host would say the same. */
export function isFinal(error: unknown): boolean {
  if (error instanceof LoginRefused) return true;
  return isDatabaseError(error) && !isDatabaseError(error, 'shutdown');
}
