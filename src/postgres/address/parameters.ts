// libpq's parameters: supported ones, ones that are accepted only with the value that svc uses anyway, and rejected
// ones. None is ignored.
import { closest } from '../../lib/text/closest-word.ts';
import { UnreadableAddress, type Values } from './conninfo.ts';

/** Supported names with libpq's variable for each. */
export const VARIABLES = {
  host: 'PGHOST',
  port: 'PGPORT',
  user: 'PGUSER',
  password: 'PGPASSWORD',
  dbname: 'PGDATABASE',
  connect_timeout: 'PGCONNECT_TIMEOUT',
  target_session_attrs: 'PGTARGETSESSIONATTRS',
  load_balance_hosts: 'PGLOADBALANCEHOSTS',
  sslmode: 'PGSSLMODE',
  sslnegotiation: 'PGSSLNEGOTIATION',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  channel_binding: 'PGCHANNELBINDING',
  options: 'PGOPTIONS',
  application_name: 'PGAPPNAME',
  keepalives_idle: undefined,
} as const satisfies Record<string, string | undefined>;

export type Understood = keyof typeof VARIABLES;

/** Sessions have a name, are kept alive and are watched in any case. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set([
  'fallback_application_name',
  'keepalives',
  'keepalives_interval',
  'keepalives_count',
  'tcp_user_timeout',
]);

/** Parameters that are accepted only with these values, which match the behaviour of svc. */
const ONLY: Readonly<Record<string, readonly string[]>> = {
  client_encoding: ['utf8', 'utf-8', 'unicode', 'auto'],
  gssencmode: ['disable', 'prefer'],
  replication: ['false', 'off', '0', 'no'],
  sslcompression: ['0'],
  sslsni: ['1'],
};

/** Parameters that libpq supports and svc does not, with the alternative. */
const UNSUPPORTED: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [
      'authtype',
      'gssdelegation',
      'gsslib',
      'krbsrvname',
      'max_protocol_version',
      'min_protocol_version',
      'oauth_client_id',
      'oauth_client_secret',
      'oauth_issuer',
      'oauth_scope',
      'require_auth',
      'requirepeer',
      'scram_client_key',
      'scram_server_key',
      'servicefile',
      'ssl_max_protocol_version',
      'ssl_min_protocol_version',
      'sslcertmode',
      'sslcrl',
      'sslcrldir',
      'sslkeylogfile',
      'sslpassword',
      'tty',
    ].map((name) => [name, 'Take it out.']),
  ),
  hostaddr: 'Name the address as host.',
  passfile: 'Put the password into the address, or into PGPASSWORD.',
  service: 'Write out the settings of the service file.',
  requiressl: 'Write sslmode=require.',
  ssl: 'Write sslmode=require, or sslmode=disable; ssl=true is also supported.',
  uselibpqcompat: 'Take it out: sslmode means what it means for libpq.',
};

/** Rejects unsupported parameters by name. */
export function checkParameters(values: Values): void {
  for (const [name, value] of values) {
    if (name in VARIABLES || WITHOUT_EFFECT.has(name)) continue;
    const only = ONLY[name];
    if (only?.includes(value.toLowerCase()) === true) continue;
    if (only) {
      throw new UnreadableAddress(
        `asks for ${name}=${value}, which is not supported`,
        `Supported: ${only.join(', ')}.`,
      );
    }
    const instead = UNSUPPORTED[name];
    if (instead !== undefined) throw new UnreadableAddress(`sets ${name}, which is not supported`, instead);
    throw unknown(name);
  }
}

function unknown(name: string): UnreadableAddress {
  // An invalid name may be part of the password.
  if (!/^\w{1,40}$/.test(name)) {
    return new UnreadableAddress(
      'has an unknown parameter',
      'A ? in a name or password is written %3F, an & in a value %26.',
    );
  }
  const suggestion = closest(name, Object.keys(VARIABLES));
  return new UnreadableAddress(
    `has an unknown parameter "${name}"`,
    suggestion === undefined
      ? "Take it out. Known are libpq's, such as host, user, dbname, sslmode and connect_timeout."
      : `Did you mean ${suggestion}?`,
  );
}
