// What every action works with, made once when the feature starts.
import type { OwnerDatabase } from '../postgres/owner-database.ts';
import type { Keyring } from '../identity/keyring.ts';
import type { SigningKeys } from '../identity/signing-keys.ts';
import type { SecretBox } from '../lib/secret-box.ts';
import type { Log } from '../log/log.ts';
import type { Limiter } from './rate-limit.ts';
import type { Outbox } from './mail/outbox.ts';
import type { PasswordHasher } from './users/password.ts';
import type { ProviderSet } from './provider/provider.ts';
import type { AuthSettings } from './settings.ts';

export type AuthBoxes = {
  readonly sessionKey: SecretBox;
  readonly totpSecret: SecretBox;
  readonly providerToken: SecretBox;
  readonly mail: SecretBox;
};

export type AuthContext = {
  readonly db: OwnerDatabase;
  /** As the file says now; read it once per request. */
  readonly settings: () => AuthSettings;
  readonly now: () => Date;
  readonly log: Log;
  readonly keyring: Keyring;
  readonly boxes: AuthBoxes;
  /** Keyed digest of a six-digit code. */
  readonly codeMac: (message: string) => Buffer;
  readonly signingKeys: SigningKeys;
  readonly hasher: PasswordHasher;
  readonly limiter: Limiter;
  readonly outbox: Outbox;
  readonly providers: ProviderSet;
  /** Configured public base, undefined when only the request can tell. */
  readonly baseUrl: () => string | undefined;
  readonly dev: boolean;
};
