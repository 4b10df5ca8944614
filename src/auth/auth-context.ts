// The dependencies of every action, created once when the feature starts.
import type { FeatureContext } from '../http/feature.ts';
import type { Keyring, MacKeys } from '../identity/keyring.ts';
import type { SecretBox } from '../lib/secret-box.ts';
import { Hooks } from './hooks/hooks.ts';
import { Outbox } from './mail/outbox.ts';
import { providerFinder } from './provider/oauth-provider.ts';
import type { FindProvider } from './provider/provider.ts';
import { Limiter } from './rate-limit.ts';
import { readAuthSettings, type AuthSettings } from './settings.ts';
import { PasswordHasher } from './users/password.ts';
import type { OwnerDatabase } from '../postgres/owner-database.ts';

export type AuthContext = Pick<FeatureContext, 'now' | 'log' | 'signingKeys' | 'baseUrl'> & {
  readonly db: OwnerDatabase;
  /** Returns the current settings. Call it once per request. */
  readonly settings: () => AuthSettings;
  readonly boxes: Readonly<Record<'sessionKey' | 'totpSecret' | 'providerToken' | 'mail', SecretBox>>;
  /** Returns the keyed digest of a six-digit code. */
  readonly codeMac: (message: string) => Buffer;
  /** Signs the forms on the pages of mailed links. */
  readonly linkForms: MacKeys;
  readonly hasher: PasswordHasher;
  readonly limiter: Limiter;
  readonly outbox: Outbox;
  readonly hooks: Hooks;
  readonly findProvider: FindProvider;
};

/** Returns the boxes that seal the secrets in the rows of `auth`. */
export const openBoxes = (keyring: Keyring): AuthContext['boxes'] => ({
  sessionKey: keyring.box('session key'),
  totpSecret: keyring.box('totp secret'),
  providerToken: keyring.box('provider token'),
  mail: keyring.box('mail'),
});

export function makeContext(context: FeatureContext, hasher = new PasswordHasher()): AuthContext {
  const { owner: db, now, log, keyring, signingKeys, baseUrl } = context;
  let read: { readonly config: unknown; readonly settings: AuthSettings } | undefined;
  const settings = (): AuthSettings => {
    const { config } = context.snapshot();
    if (read?.config !== config)
      read = { config, settings: readAuthSettings(config, context.env, context.dev) };
    return read.settings;
  };
  const boxes = openBoxes(keyring);
  return {
    db,
    settings,
    now,
    log,
    boxes,
    codeMac: keyring.mac('one-time code'),
    linkForms: keyring.macKeys('mailed link form'),
    signingKeys,
    hasher,
    limiter: new Limiter(db, settings),
    outbox: new Outbox({ db, box: boxes.mail, settings: () => settings().mail, now, log }),
    hooks: new Hooks({
      db,
      hooks: () => settings().hooks ?? {},
      log,
      callFunction: context.callFunction,
    }),
    findProvider: providerFinder(() => settings().oauth, now),
    baseUrl,
  };
}
