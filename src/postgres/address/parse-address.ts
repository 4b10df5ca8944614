// Parses the text of an address into fields, as libpq does.
import { userInfo } from 'node:os';
import { Problem } from '../../problem/problem.ts';
import { readConninfo, UnreadableAddress, type Values } from './conninfo.ts';
import {
  DatabaseAddress,
  SESSION_ATTRS,
  SSL_MODES,
  type AddressFields,
  type Target,
  type TlsFields,
} from './database-address.ts';
import { checkParameters, VARIABLES, type Understood } from './parameters.ts';
import { readOptions } from './session-options.ts';
import { checkFiles } from './tls.ts';

type Env = Readonly<Record<string, string | undefined>>;
/** Returns the value from the address or from libpq's variable. */
type Given = (name: Understood) => string | undefined;

const MAX_TARGETS = 16;
const KEEP_ALIVE_MS = 10_000;
const CONNECT_TIMEOUT_MS = 5_000;

/** Values that the address text does not contain. */
type Defaults = Pick<AddressFields, 'variable' | 'attrs' | 'isShuffled'>;

type ParseOptions = Partial<Defaults> & {
  /** Name of the variable that contains the text, for messages. */
  readonly name?: string;
  readonly env?: Env;
};

/** Parses an address. Missing values come from libpq's variables (PGHOST, PGUSER …), then from libpq's defaults. */
export function parseAddress(
  text: string,
  {
    name = 'SVC_DATABASE_URL',
    env = process.env,
    attrs = 'prefer-primary',
    isShuffled = false,
  }: ParseOptions = {},
): DatabaseAddress {
  try {
    const values = readConninfo(text);
    checkParameters(values);
    return new DatabaseAddress(readFields(givenBy(values, env), { variable: name, attrs, isShuffled }));
  } catch (error) {
    if (!(error instanceof UnreadableAddress)) throw error;
    throw new Problem('bad_database_url', 500, `${name} ${error.message}`, {
      hint: error.hint,
      cause: error.cause,
    });
  }
}

function givenBy(values: Values, env: Env): Given {
  return (name) => {
    const variable = VARIABLES[name];
    const value = values.get(name) ?? (variable === undefined ? undefined : env[variable]);
    return value === '' ? undefined : value;
  };
}

function readFields(given: Given, defaults: Defaults): AddressFields {
  const balanced = readChoice(given, 'load_balance_hosts', ['disable', 'random']);
  const user = given('user') ?? systemUser();
  return {
    variable: defaults.variable,
    targets: readTargets(given('host') ?? '', given('port') ?? ''),
    user,
    password: given('password'),
    database: given('dbname') ?? user,
    tls: readTls(given),
    attrs: readChoice(given, 'target_session_attrs', SESSION_ATTRS) ?? defaults.attrs,
    isShuffled: balanced === undefined ? defaults.isShuffled : balanced === 'random',
    connectTimeoutMs: milliseconds(given, 'connect_timeout', CONNECT_TIMEOUT_MS),
    applicationName: given('application_name'),
    keepAliveMs: Math.min(milliseconds(given, 'keepalives_idle', KEEP_ALIVE_MS), KEEP_ALIVE_MS),
    options: readOptions(given('options') ?? ''),
  };
}

function systemUser(): string {
  try {
    return userInfo().username;
  } catch (cause) {
    const error = new UnreadableAddress(
      'names no user, and this process runs as one without a name',
      'Write it before the host: postgres://user:password@host/database.',
    );
    error.cause = cause;
    throw error;
  }
}

function readTargets(hostList: string, portList: string): AddressFields['targets'] {
  const hosts = hostList.split(',');
  const ports = portList.split(',');
  if (ports.length > 1 && ports.length !== hosts.length) {
    throw new UnreadableAddress(
      `could not match ${ports.length} port numbers to ${hosts.length} hosts`,
      'Give one port for all hosts, or one for each.',
    );
  }
  if (hosts.length > MAX_TARGETS) {
    throw new UnreadableAddress(`names ${hosts.length} hosts`, `${MAX_TARGETS} are the most.`);
  }
  const [first, ...others] = hosts.map((host, index): Target => ({
    host: host === '' ? 'localhost' : host,
    port: readPort(ports[index] ?? ports[0] ?? ''),
  }));
  // `split` returns at least one element.
  return first === undefined ? [{ host: 'localhost', port: 5432 }] : [first, ...others];
}

/** Errors omit the text: after a / in a password, it is a part of the password. */
function readPort(text: string): number {
  if (text === '') return 5432;
  const port = /^\s*\+?\d+\s*$/.test(text) ? Number(text) : 0;
  if (port >= 1 && port <= 65_535) return port;
  throw new UnreadableAddress(
    'has a port that is not a number from 1 to 65535',
    'PostgreSQL listens on 5432 by default. In a password @ : / ? # are written %40 %3A %2F %3F %23.',
  );
}

function readTls(given: Given): TlsFields {
  const sslrootcert = given('sslrootcert');
  const sslnegotiation = readChoice(given, 'sslnegotiation', ['postgres', 'direct']) ?? 'postgres';
  const sslmode =
    readChoice(given, 'sslmode', SSL_MODES) ?? (sslrootcert === 'system' ? 'verify-full' : 'prefer');
  const [sslcert, sslkey] = [given('sslcert'), given('sslkey')];
  if (sslrootcert === 'system' && sslmode !== 'verify-full') {
    throw new UnreadableAddress(
      `has sslrootcert=system with the weak sslmode=${sslmode}`,
      'Certificates that anybody can get prove nothing but the name: use sslmode=verify-full.',
    );
  }
  if (sslnegotiation === 'direct' && ['disable', 'allow', 'prefer'].includes(sslmode)) {
    throw new UnreadableAddress(
      `has sslnegotiation=direct with the weak sslmode=${sslmode}`,
      'Use sslmode=require, verify-ca or verify-full with it.',
    );
  }
  if ((sslcert === undefined) !== (sslkey === undefined)) {
    const [has, lacks] = sslcert === undefined ? ['sslkey', 'sslcert'] : ['sslcert', 'sslkey'];
    throw new UnreadableAddress(`has ${has} without ${lacks}`, 'A client certificate needs both files.');
  }
  const tls: TlsFields = {
    sslmode,
    sslnegotiation,
    sslrootcert,
    sslcert,
    sslkey,
    channelBinding: readChoice(given, 'channel_binding', ['disable', 'prefer', 'require']) ?? 'prefer',
  };
  checkFiles(tls);
  return tls;
}

function readChoice<const Value extends string>(
  given: Given,
  name: Understood,
  known: readonly Value[],
): Value | undefined {
  const said = given(name);
  const found = known.find((value) => value === said);
  if (said === undefined || found !== undefined) return found;
  throw new UnreadableAddress(
    `has an unknown ${name} "${said}"`,
    said === 'no-verify'
      ? 'sslmode=require encrypts, and verifies nothing without sslrootcert.'
      : `Known: ${known.join(', ')}.`,
  );
}

/** Reads whole seconds, as libpq does. libpq's value for "no limit" selects the default. */
function milliseconds(given: Given, name: Understood, byDefault: number): number {
  const said = given(name);
  if (said === undefined) return byDefault;
  if (!/^\s*[+-]?\d{1,9}\s*$/.test(said)) {
    throw new UnreadableAddress(`has a ${name} that is not a whole number`, 'It is in seconds.');
  }
  const seconds = Number(said);
  return seconds > 0 ? seconds * 1000 : byDefault;
}
