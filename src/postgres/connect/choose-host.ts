// Chooses a host of an address: tries each in order until one has the requested role.
import type { DatabaseAddress, SessionAttrs } from '../address/database-address.ts';
import { isFinal, NoHost, WrongKind, type HostFailure } from './host-failure.ts';
import { logIn, type LoggedIn, type LoginSettings } from './login.ts';
import { avoid, inOrder, resolveEndpoints, trust, type Endpoint } from './endpoint.ts';

export type Chosen = LoggedIn & {
  /** True if no host had the preferred role, so this one replaces it. */
  readonly isStandIn: boolean;
};

export async function chooseHost(settings: LoginSettings): Promise<Chosen> {
  const { address } = settings;
  const failures: HostFailure[] = [];
  let standIn: Chosen | undefined;
  for (const target of inOrder(address)) {
    const places = await resolveEndpoints(target, address).catch((error: unknown) => {
      failures.push({ place: { target, ip: undefined }, error });
      return [];
    });
    for (const place of places) {
      const found = await tryPlace(place, settings).catch((error: unknown) => {
        settings.signal?.throwIfAborted();
        if (isFinal(error)) {
          discard(standIn);
          throw error;
        }
        failures.push({ place, error });
        return undefined;
      });
      if (found === undefined) continue;
      if (!found.isStandIn) {
        trust(target);
        discard(standIn);
        return found;
      }
      if (standIn === undefined) standIn = found;
      else discard(found);
    }
    avoid(target);
  }
  if (standIn !== undefined) return standIn;
  const [only, ...others] = failures;
  if (only !== undefined && others.length === 0 && !(only.error instanceof WrongKind)) throw only.error;
  throw new NoHost(address, failures);
}

async function tryPlace(place: Endpoint, settings: LoginSettings): Promise<Chosen> {
  const loggedIn = await logIn(place, settings);
  const { attrs } = settings.address;
  const fit = await judge(loggedIn, settings.address);
  if (fit === 'yes') return { ...loggedIn, isStandIn: false };
  if (fit === 'stand-in') return { ...loggedIn, isStandIn: true };
  discard(loggedIn);
  throw new WrongKind(`${fit}, and ${attrs} is asked for`);
}

function discard(login: LoggedIn | undefined): void {
  login?.stream.destroy();
}

/** Returns `yes`, `stand-in`, or the reason why the server does not qualify. */
async function judge(loggedIn: LoggedIn, { attrs, targets }: DatabaseAddress): Promise<string> {
  if (attrs === 'any') return 'yes';
  const isOnlyHost = targets.length === 1;
  // A pooler may not report `in_hot_standby`. A query would cost a round trip, and there is no other host.
  if (attrs.startsWith('prefer-') && isOnlyHost && !loggedIn.parameters.has('in_hot_standby')) return 'yes';
  const { isStandby, isReadOnly } = await readKind(loggedIn, attrs);
  const wrong: Readonly<Record<SessionAttrs, string | false>> = {
    any: false,
    'read-write': isReadOnly && 'it is read-only',
    'read-only': !isReadOnly && 'it takes writes',
    primary: isStandby && 'it is a standby',
    standby: !isStandby && 'it is not a standby',
    'prefer-primary': isStandby && 'stand-in',
    'prefer-standby': !isStandby && 'stand-in',
  };
  return wrong[attrs] || 'yes';
}

type Kind = { readonly isStandby: boolean; readonly isReadOnly: boolean };

/** PostgreSQL reports both settings at login. Some poolers do not forward them. */
async function readKind({ client, parameters }: LoggedIn, attrs: SessionAttrs): Promise<Kind> {
  const standby = parameters.get('in_hot_standby');
  const readOnly = parameters.get('default_transaction_read_only');
  const needsReadOnly = attrs === 'read-write' || attrs === 'read-only';
  if (standby !== undefined && (readOnly !== undefined || !needsReadOnly)) {
    return { isStandby: standby === 'on', isReadOnly: standby === 'on' || readOnly === 'on' };
  }
  const { rows } = await client.query<{ standby: boolean; read_only: string }>(
    "select pg_is_in_recovery() as standby, current_setting('transaction_read_only') as read_only",
  );
  return { isStandby: rows[0]?.standby === true, isReadOnly: rows[0]?.read_only === 'on' };
}
