// Where a database is and as whom it is entered: the fields of one address, read once. Nobody edits its text
// afterwards; for another role, `as` makes another address.
import { inspect } from 'node:util';

/** One server: a name, an IP address or the folder of a socket, and its port. */
export type Target = { readonly host: string; readonly port: number };

/** libpq's names. */
export const TLS_NAMES = [
  'sslmode',
  'sslrootcert',
  'sslcert',
  'sslkey',
  'sslnegotiation',
  'uselibpqcompat',
] as const;
export type TlsName = (typeof TLS_NAMES)[number];

export type AddressFields = {
  readonly targets: readonly [Target, ...Target[]];
  readonly user: string;
  readonly password: string | undefined;
  readonly database: string;
  /** What was said about TLS, by libpq's names. */
  readonly tls: Readonly<Partial<Record<TlsName, string>>>;
  readonly connectTimeoutMs: number | undefined;
};

export class DatabaseAddress implements AddressFields {
  readonly targets: readonly [Target, ...Target[]];
  readonly user: string;
  readonly password: string | undefined;
  readonly database: string;
  readonly tls: AddressFields['tls'];
  readonly connectTimeoutMs: number | undefined;

  constructor(fields: AddressFields) {
    this.targets = fields.targets;
    this.user = fields.user;
    this.database = fields.database;
    this.tls = fields.tls;
    this.connectTimeoutMs = fields.connectTimeoutMs;
    this.password = fields.password;
  }

  /** The same place as another role. */
  as(user: string, password: string | undefined): DatabaseAddress {
    return new DatabaseAddress({ ...this, user, password });
  }

  /** For messages: never with the password. */
  describe(): string {
    return `${this.targets.map(describeTarget).join(',')}/${this.database} as ${this.user}`;
  }

  /** A log line that is given an address shows no password. */
  toJSON(): string {
    return this.describe();
  }

  [inspect.custom](): string {
    return this.describe();
  }
}

export function describeTarget({ host, port }: Target): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
