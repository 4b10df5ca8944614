// Parses libpq's two forms of an address, `postgres://…` and `host=… user=…`, into names and values. Other modules
// interpret the names.

/** Values keyed by libpq parameter name. An empty value selects libpq's default and overrides the variable. */
export type Values = ReadonlyMap<string, string>;

/** `reason` completes "SVC_DATABASE_URL …" and shows nothing that could be the password. */
export class UnreadableAddress extends Error {
  readonly hint: string;

  constructor(reason: string, hint: string) {
    super(reason);
    this.hint = hint;
  }
}

export function readConninfo(untrimmed: string): Values {
  // Secrets that were read from files end in a newline.
  const text = untrimmed.trim();
  const scheme = /^postgres(?:ql)?:\/\//.exec(text);
  if (scheme) return readUri(text.slice(scheme[0].length));
  const otherScheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1];
  if (otherScheme !== undefined) throw new UnreadableAddress(`starts with ${otherScheme}:`, LOOKS_LIKE);
  // Without this check, the first name would contain most of a URL, with its password.
  if (!/^\s*\w+\s*=/.test(text)) throw new UnreadableAddress('is not an address', LOOKS_LIKE);
  // Only the original text shows which trailing spaces belong to a value.
  return readPairs(untrimmed);
}

const LOOKS_LIKE =
  'It looks like postgres://user:password@host:5432/database, or host=… port=… user=… password=… dbname=….';

function readUri(rest: string): Values {
  const values = new Map<string, string>();
  // Empty parts are as good as absent.
  const set = (name: string, encoded: string): void => {
    if (encoded !== '') values.set(name, decode(encoded, name));
  };
  const at = endOfUser(rest);
  if (at !== undefined) {
    const [user = '', ...password] = rest.slice(0, at).split(':');
    set('user', user);
    set('password', password.join(':'));
  }
  const { hosts, ports, after } = readHosts(at === undefined ? rest : rest.slice(at + 1));
  set('host', hosts.join(','));
  set('port', ports.join(','));
  const query = after.indexOf('?');
  const path = query < 0 ? after : after.slice(0, query);
  set('dbname', path.slice(1));
  if (query >= 0) readParameters(after.slice(query + 1), values);
  return values;
}

/**
 * libpq ends the user at the first @ before a slash. A host cannot contain an @, so if one remains, the password
 * contains an unencoded @ and the last @ is the separator.
 */
function endOfUser(rest: string): number | undefined {
  const first = /^[^@/]*@/.exec(rest)?.[0].length;
  if (first === undefined) return undefined;
  const host = /^[^/?]*/.exec(rest.slice(first))?.[0] ?? '';
  return first + host.lastIndexOf('@');
}

type Hosts = { readonly hosts: string[]; readonly ports: string[]; readonly after: string };

function readHosts(text: string): Hosts {
  const hosts: string[] = [];
  const ports: string[] = [];
  let rest = text;
  for (;;) {
    const [whole, bracketed, bare] = /^(?:\[([^\]]*)\]|([^:/?,]*))/.exec(rest) ?? ['', undefined, ''];
    if (bracketed === undefined && rest.startsWith('[')) {
      throw new UnreadableAddress('has an IPv6 address without its closing bracket', BRACKETS);
    }
    if (bracketed === '') throw new UnreadableAddress('has empty brackets for a host', BRACKETS);
    rest = rest.slice(whole.length);
    if (bracketed !== undefined && !/^(?:$|[:/?,])/.test(rest)) {
      throw new UnreadableAddress('has something after the closing bracket of an IPv6 address', BRACKETS);
    }
    const port = /^:([^/?,]*)/.exec(rest);
    hosts.push(bracketed ?? bare ?? '');
    ports.push(port?.[1] ?? '');
    rest = rest.slice(port?.[0].length ?? 0);
    if (!rest.startsWith(',')) return { hosts, ports, after: rest };
    rest = rest.slice(1);
  }
}

const BRACKETS = 'An IPv6 address goes in brackets: [::1]:5432.';

function readParameters(text: string, values: Map<string, string>): void {
  const parts = text.split('&');
  // Nothing after the last &, or nothing at all.
  if (parts.at(-1) === '') parts.pop();
  for (const part of parts) {
    const [encodedName = '', encodedValue, ...more] = part.split('=');
    const name = decode(encodedName, 'parameter');
    if (encodedValue === undefined || more.length > 0) {
      throw new UnreadableAddress(
        `has a parameter "${name}" that is not name=value`,
        'Write & between two parameters, and %3D for = in a value.',
      );
    }
    const value = decode(encodedValue, name);
    // JDBC's spelling, which libpq accepts.
    if (name === 'ssl' && value === 'true') values.set('sslmode', 'require');
    else values.set(name, value);
  }
}

function decode(text: string, part: string): string {
  try {
    const decoded = decodeURIComponent(text);
    if (!decoded.includes('\0')) return decoded;
  } catch {
    // The error below omits the text because it may contain the password.
  }
  throw new UnreadableAddress(
    `has a percent sign in its ${part} that begins no encoded character`,
    'Write a percent sign as %25, and @ : / ? # in a name or password as %40 %3A %2F %3F %23.',
  );
}

/** White space for C's isspace. */
const SPACE = /[ \t\n\v\f\r]/;

/** Reads `name = value` pairs. Values with spaces are in single quotes; a backslash escapes a quote or backslash. */
function readPairs(text: string): Values {
  const values = new Map<string, string>();
  let at = 0;
  const skipSpace = (): void => {
    while (at < text.length && SPACE.test(text.charAt(at))) at += 1;
  };
  for (;;) {
    skipSpace();
    if (at >= text.length) return values;
    const start = at;
    while (at < text.length && text.charAt(at) !== '=' && !SPACE.test(text.charAt(at))) at += 1;
    const name = text.slice(start, at);
    skipSpace();
    if (text.charAt(at) !== '=') {
      // The word may be the rest of a password that contains a space.
      throw new UnreadableAddress(
        'has a word without = after it',
        "A value with spaces goes in single quotes: password='two words'.",
      );
    }
    at += 1;
    skipSpace();
    const { value, end } = readValue(text, at);
    values.set(name, value);
    at = end;
  }
}

function readValue(text: string, start: number): { value: string; end: number } {
  const isQuoted = text.charAt(start) === "'";
  let value = '';
  for (let at = isQuoted ? start + 1 : start; at < text.length; at++) {
    const character = text.charAt(at);
    if (character === '\\') {
      at += 1;
      value += text.charAt(at);
    } else if (isQuoted ? character === "'" : SPACE.test(character)) return { value, end: at + 1 };
    else value += character;
  }
  if (isQuoted)
    throw new UnreadableAddress('has a quote that is not closed', "Write \\' for a quote in a value.");
  return { value, end: text.length };
}
