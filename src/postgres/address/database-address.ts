// The fields of one database address, parsed once. The text is not edited afterwards; `as` makes an address for
// another role.
import { inspect } from 'node:util';
import type { SessionOption } from './session-options.ts';

/** A single server: a name, an IP address or the folder of a socket (with @ an abstract socket), and its port. */
export type Target = { readonly host: string; readonly port: number };

export const SESSION_ATTRS = [
  'any',
  'read-write',
  'read-only',
  'primary',
  'standby',
  'prefer-standby',
] as const;
/** Requirement for a usable server: libpq's `target_session_attrs`, and a counterpart to `prefer-standby`. */
export type SessionAttrs = (typeof SESSION_ATTRS)[number] | 'prefer-primary';

export const SSL_MODES = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof SSL_MODES)[number];

/** TLS settings under libpq's names. All except `sslmode` are paths. */
export type TlsFields = {
  readonly sslmode: SslMode;
  readonly sslnegotiation: 'postgres' | 'direct';
  /** `system`: the roots that this machine trusts. */
  readonly sslrootcert: string | undefined;
  readonly sslcert: string | undefined;
  readonly sslkey: string | undefined;
  readonly channelBinding: 'disable' | 'prefer' | 'require';
};

export type AddressFields = {
  /** Name of the variable that contained the address, for messages. */
  readonly variable: string;
  readonly targets: readonly [Target, ...Target[]];
  readonly user: string;
  readonly password: string | undefined;
  readonly database: string;
  readonly tls: TlsFields;
  readonly attrs: SessionAttrs;
  /** The hosts, and the addresses of each, are tried in a new order each time. */
  readonly isShuffled: boolean;
  /** Timeout for each IP address of a host. */
  readonly connectTimeoutMs: number;
  /** Prefix of the product's application name. */
  readonly applicationName: string | undefined;
  readonly keepAliveMs: number;
  readonly options: readonly SessionOption[];
};

export class DatabaseAddress implements AddressFields {
  readonly variable: string;
  readonly targets: AddressFields['targets'];
  readonly user: string;
  readonly password: string | undefined;
  readonly database: string;
  readonly tls: TlsFields;
  readonly attrs: SessionAttrs;
  readonly isShuffled: boolean;
  readonly connectTimeoutMs: number;
  readonly applicationName: string | undefined;
  readonly keepAliveMs: number;
  readonly options: readonly SessionOption[];

  readonly #fields: AddressFields;

  constructor(fields: AddressFields) {
    this.#fields = fields;
    this.variable = fields.variable;
    this.targets = fields.targets;
    this.user = fields.user;
    this.password = fields.password;
    this.database = fields.database;
    this.tls = fields.tls;
    this.attrs = fields.attrs;
    this.isShuffled = fields.isShuffled;
    this.connectTimeoutMs = fields.connectTimeoutMs;
    this.applicationName = fields.applicationName;
    this.keepAliveMs = fields.keepAliveMs;
    this.options = fields.options;
  }

  /** Returns this address for another role. */
  as(user: string, password: string | undefined): DatabaseAddress {
    return new DatabaseAddress({ ...this.#fields, user, password });
  }

  /** Another database of the same server. */
  on(database: string): DatabaseAddress {
    return new DatabaseAddress({ ...this.#fields, database });
  }

  /** Returns this address with a single target. */
  at(target: Target): DatabaseAddress {
    return new DatabaseAddress({ ...this.#fields, targets: [target] });
  }

  /** Returns this address with another requirement for its servers. */
  wanting(attrs: SessionAttrs): DatabaseAddress {
    return new DatabaseAddress({ ...this.#fields, attrs });
  }

  /** Returns a description for messages, without the password. */
  describe(): string {
    return `${this.targets.map(describeTarget).join(',')}/${this.database} as ${this.user}`;
  }

  /** Keeps the password out of log lines. */
  toJSON(): string {
    return this.describe();
  }

  [inspect.custom](): string {
    return this.describe();
  }
}

export function isSocket({ host }: Target): boolean {
  return host.startsWith('/') || host.startsWith('@');
}

export function describeTarget(target: Target): string {
  const { host, port } = target;
  if (isSocket(target)) return `${host}/.s.PGSQL.${port}`;
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}
