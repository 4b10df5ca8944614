// Built-in names: OAuth providers, mails, and reserved bucket names.

export const OAUTH_PROVIDERS: ReadonlySet<string> = new Set([
  'apple',
  'azure',
  'bitbucket',
  'discord',
  'facebook',
  'figma',
  'fly',
  'github',
  'gitlab',
  'google',
  'kakao',
  'keycloak',
  'linkedin_oidc',
  'notion',
  'slack_oidc',
  'spotify',
  'twitch',
  'twitter',
  'workos',
  'x',
  'zoom',
]);

/** Mails about a change of an account. They contain neither a link nor a code. */
export const NOTICE_KINDS = [
  'password_changed',
  'email_changed',
  'identity_linked',
  'identity_unlinked',
  'mfa_factor_enrolled',
  'mfa_factor_unenrolled',
  'credentials_removed',
  'guarded_sign_in',
] as const;
export type NoticeKind = (typeof NOTICE_KINDS)[number];

/** Mails that auth sends. */
export const MAIL_KINDS = [
  'confirm',
  'magic_link',
  'recovery',
  'invite',
  'email_change',
  'reauthentication',
  ...NOTICE_KINDS,
] as const;
export type MailKind = (typeof MAIL_KINDS)[number];

/** Names and aliases of mails in `auth.email.templates`, with their kind. */
export const MAIL_TEMPLATES: ReadonlyMap<string, MailKind> = new Map<string, MailKind>([
  ['confirm', 'confirm'],
  ['confirmation', 'confirm'],
  ['signup', 'confirm'],
  ['magic_link', 'magic_link'],
  ['magiclink', 'magic_link'],
  ['recovery', 'recovery'],
  ['reset_password', 'recovery'],
  ['invite', 'invite'],
  ['email_change', 'email_change'],
  ['reauthentication', 'reauthentication'],
  ...NOTICE_KINDS.map((kind) => [kind, kind] as const),
]);

/** Path segments of the storage API. A bucket with such a name would be unreachable. */
export const RESERVED_BUCKETS: ReadonlySet<string> = new Set([
  'sign',
  'upload',
  'public',
  'authenticated',
  'info',
  'list',
  'list-v2',
  'move',
  'copy',
  'resumable',
  's3',
  'render',
  'bucket',
  'cdn',
]);
