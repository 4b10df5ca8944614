// Required parameters of every session: sent when it is opened, read back, and, if a pooler did not forward them, set
// in each batch.
import { quoteLiteral } from '../sql.ts';

/** Times are in milliseconds, the unit in which `pg_settings` shows them. */
export type SessionParameters = ReadonlyArray<readonly [name: string, value: string]>;

export type Deadlines = {
  /** `statement_timeout` of the session, in milliseconds; 0 is none. */
  readonly statementTimeoutMs?: number | undefined;
  /** `lock_timeout` of the session, in milliseconds; 0 is none. */
  readonly lockTimeoutMs?: number | undefined;
};

/** How soon the server ends the work of a client that has vanished. */
const CLIENT_CHECK_MS = 5_000;
const IDLE_IN_TRANSACTION_MS = 60_000;

export const CLIENT_CHECK = 'client_connection_check_interval';

export function sessionParameters({ statementTimeoutMs, lockTimeoutMs }: Deadlines): SessionParameters {
  const parameters: Array<readonly [string, string]> = [
    ['timezone', 'UTC'],
    ['datestyle', 'ISO,MDY'],
    ['intervalstyle', 'postgres'],
    ['idle_in_transaction_session_timeout', String(IDLE_IN_TRANSACTION_MS)],
  ];
  // A server on Windows cannot check its clients and rejects the parameter. During development the server runs on
  // this machine.
  if (process.platform !== 'win32') parameters.push([CLIENT_CHECK, String(CLIENT_CHECK_MS)]);
  if (statementTimeoutMs) parameters.push(['statement_timeout', String(statementTimeoutMs)]);
  if (lockTimeoutMs) parameters.push(['lock_timeout', String(lockTimeoutMs)]);
  return parameters;
}

/** Formats `options` of the start-up message. It costs no round trip and applies to every statement. */
export function startupOptions(parameters: SessionParameters): string {
  return parameters.map(([name, value]) => `-c ${name}=${value}`).join(' ');
}

/** Returns the parameters whose value on the server differs. `found` is keyed by lower-case name. */
export function missingParameters(
  parameters: SessionParameters,
  found: Readonly<Record<string, string>>,
): SessionParameters {
  return parameters.filter(([name, value]) => plain(found[name] ?? '') !== plain(value));
}

/** Normalises a value: the server writes `ISO, MDY`, and time zones with different case. */
function plain(value: string): string {
  return value.replaceAll(' ', '').toLowerCase();
}

/** Returns one `set_config` call for the transaction. `value` is SQL. */
export function setConfig(name: string, value: string): string {
  return `set_config('${name}', ${value}, true)`;
}

/** Returns a statement without placeholders that sets the parameters for the current transaction. */
export function settingsStatement(parameters: SessionParameters): string {
  const calls = parameters.map(([name, value]) => setConfig(name, quoteLiteral(value)));
  return `select ${calls.join(', ')}`;
}
