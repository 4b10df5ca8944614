// Reads the text of an address, libpq's URL, into fields.
import { userInfo } from 'node:os';
import { Problem } from '../../problem/problem.ts';
import { DatabaseAddress, TLS_NAMES, type TlsName } from './database-address.ts';

const SSL_MODES = ['disable', 'no-verify', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];

/** Parameters of libpq that change nothing here: we name our sessions, keep connections alive and use UTF-8 anyway. */
const WITHOUT_EFFECT: ReadonlySet<string> = new Set([
  'application_name',
  'fallback_application_name',
  'client_encoding',
  'keepalives',
  'keepalives_idle',
  'keepalives_interval',
  'keepalives_count',
  'tcp_user_timeout',
]);

/** Parameters that are accepted only with values that ask for what is done anyway. */
const ONLY: Readonly<Record<string, readonly string[]>> = {
  target_session_attrs: ['any', 'read-write', 'primary'],
  load_balance_hosts: ['disable'],
  channel_binding: ['disable', 'prefer'],
  gssencmode: ['disable', 'prefer'],
  replication: ['false', 'off', '0', 'no'],
};

type Env = Readonly<Record<string, string | undefined>>;

/** What the URL leaves out comes from libpq's variables (PGHOST, PGUSER …), and after them from libpq's defaults. */
export function parseAddress(
  text: string,
  { name = 'SVC_DATABASE_URL', env = process.env }: { readonly name?: string; readonly env?: Env } = {},
): DatabaseAddress {
  try {
    return read(text, env);
  } catch (error) {
    if (!(error instanceof Problem) || name === 'SVC_DATABASE_URL') throw error;
    throw refused(error.message.replaceAll('SVC_DATABASE_URL', name), error.hint ?? '');
  }
}

function read(text: string, env: Env): DatabaseAddress {
  const scheme = /^postgres(?:ql)?:\/\//.exec(text);
  if (!scheme) {
    const other = /^([a-z][a-z0-9+.-]*):/i.exec(text)?.[1];
    throw refused(
      other === undefined ? 'SVC_DATABASE_URL is not a URL' : `SVC_DATABASE_URL starts with ${other}:`,
      'It looks like postgres://user:password@host:5432/database.',
    );
  }
  const rest = text.slice(scheme[0].length);
  const query = rest.indexOf('?');
  const before = query < 0 ? rest : rest.slice(0, query);
  const slash = before.indexOf('/');
  const authority = slash < 0 ? before : before.slice(0, slash);
  const at = authority.lastIndexOf('@');
  const said = {
    ...readUser(at < 0 ? '' : authority.slice(0, at)),
    ...readHost(authority.slice(at + 1)),
    dbname: slash < 0 ? '' : decode(before.slice(slash + 1), 'database'),
  };
  // As in libpq a parameter wins over the same thing said before the question mark.
  const values: Values = { ...said, ...readParameters(query < 0 ? '' : rest.slice(query + 1)) };
  const given = (name: string, variable: string): string | undefined =>
    [values[name], env[variable]].find((value) => value !== undefined && value !== '');
  const host = given('host', 'PGHOST') ?? 'localhost';
  assertOneHost(host);
  const user = given('user', 'PGUSER') ?? userInfo().username;
  const seconds = Number(given('connect_timeout', 'PGCONNECT_TIMEOUT') ?? '0');
  return new DatabaseAddress({
    targets: [{ host, port: readPort(given('port', 'PGPORT') ?? '5432') }],
    user,
    password: given('password', 'PGPASSWORD'),
    database: given('dbname', 'PGDATABASE') ?? user,
    tls: readTls(values, env),
    connectTimeoutMs: Number.isInteger(seconds) && seconds > 0 ? seconds * 1000 : undefined,
  });
}

type Values = Record<string, string>;

function readUser(text: string): Values {
  if (text === '') return {};
  const colon = text.indexOf(':');
  const user = decode(colon < 0 ? text : text.slice(0, colon), 'user');
  return { user, password: colon < 0 ? '' : decode(text.slice(colon + 1), 'password') };
}

function readHost(text: string): Values {
  assertOneHost(text);
  const match = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::([^:]*))?$/.exec(text);
  if (!match) {
    throw refused(
      'SVC_DATABASE_URL has a host that cannot be read',
      'An IPv6 address goes in brackets: [::1]:5432.',
    );
  }
  return { host: match[1] ?? decode(match[2] ?? '', 'host'), port: match[3] ?? '' };
}

function assertOneHost(text: string): void {
  if (!text.includes(',')) return;
  throw refused(
    'SVC_DATABASE_URL names several hosts',
    'Name one: the primary, or an address that leads to it.',
  );
}

function readPort(text: string): number {
  const port = Number(text);
  if (/^\d+$/.test(text) && port >= 1 && port <= 65_535) return port;
  throw refused(
    'SVC_DATABASE_URL has a port that is no number from 1 to 65535',
    'PostgreSQL listens on 5432 by default.',
  );
}

function readParameters(text: string): Values {
  const values: Values = {};
  for (const part of text === '' ? [] : text.split('&')) {
    const [rawName = '', rawValue, ...more] = part.split('=');
    const name = decode(rawName, 'parameter');
    if (rawValue === undefined || more.length > 0) {
      throw refused(
        `SVC_DATABASE_URL has a parameter "${name}" that is not name=value`,
        'Write & between two parameters, and %3D for = in a value.',
      );
    }
    const value = decode(rawValue, name);
    assertParameter(name, value);
    // JDBC's spelling, which libpq accepts too.
    if (name === 'ssl') values['sslmode'] = value === 'true' || value === '1' ? 'require' : 'disable';
    else values[name] = value;
  }
  return values;
}

const FIELDS: ReadonlySet<string> = new Set([
  'host',
  'port',
  'user',
  'password',
  'dbname',
  'connect_timeout',
  'ssl',
  ...TLS_NAMES,
]);

function assertParameter(name: string, value: string): void {
  if (FIELDS.has(name) || WITHOUT_EFFECT.has(name)) return;
  if (name === 'options') {
    throw refused(
      'SVC_DATABASE_URL sets options for its sessions, which would take the place of those that requests depend on',
      'Take options out of it. Deadlines are server.timeouts in svc.yaml; other settings go with the database or the role: alter role authenticator set name = value;',
    );
  }
  const only = ONLY[name];
  if (only?.includes(value)) return;
  throw refused(
    only
      ? `SVC_DATABASE_URL asks for ${name}=${value}, which is not supported`
      : `SVC_DATABASE_URL has an unknown parameter "${name}"`,
    only
      ? `Supported: ${only.join(', ')}.`
      : "Take it out. Known are libpq's, such as host, user, dbname, sslmode and connect_timeout.",
  );
}

function readTls(values: Values, env: Env): DatabaseAddress['tls'] {
  const tls: Partial<Record<TlsName, string>> = {};
  for (const name of TLS_NAMES) {
    const value = values[name] ?? env[`PG${name.toUpperCase()}`];
    if (value) tls[name] = value;
  }
  const { sslmode } = tls;
  if (sslmode !== undefined && !SSL_MODES.includes(sslmode)) {
    throw refused(`SVC_DATABASE_URL has an unknown sslmode "${sslmode}"`, `Known: ${SSL_MODES.join(', ')}.`);
  }
  return tls;
}

function decode(text: string, what: string): string {
  try {
    const decoded = decodeURIComponent(text);
    if (!decoded.includes('\0')) return decoded;
  } catch {
    // Said below, without the text: it may be the password.
  }
  throw refused(
    `SVC_DATABASE_URL has a percent sign in its ${what} that begins no encoded character`,
    'Write a percent sign as %25, and @ : / ? # in a name or password as %40 %3A %2F %3F %23.',
  );
}

const refused = (message: string, hint: string): Problem =>
  new Problem('bad_database_url', 500, message, { hint });
