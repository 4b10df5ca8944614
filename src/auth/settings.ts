// The settings of auth, from svc.yaml and the environment. The rest of auth reads these and never the file.
import { NOTICE_KINDS, type NoticeKind } from '../config/schema/names.ts';
import type { AuthConfig, Config, EmailProvider, EmailTemplate, OAuthProvider } from '../config/config.ts';

export type TemplateOverride = Partial<Pick<EmailTemplate, 'subject' | 'body'>>;

export type OAuthSettings = Omit<OAuthProvider, 'name' | 'position' | 'emailOptional'> & {
  readonly emailOptional?: OAuthProvider['emailOptional'];
  /** Replaces the provider's own URL, for tests and private gateways. From the environment. */
  readonly baseUrl?: string | undefined;
};

export type MailSettings = MailTransportSettings & {
  /** Under `svc dev`: addresses and `@domains` that receive mail. Mail to other addresses is captured. */
  readonly onlyTo?: readonly string[] | undefined;
};

type MailTransportSettings =
  | {
      readonly type: 'resend';
      readonly apiKey: string;
      readonly from: string;
      readonly baseUrl?: string | undefined;
    }
  | {
      readonly type: 'ses';
      readonly from: string;
      readonly region?: string | undefined;
      readonly endpoint?: string | undefined;
      /** If no key is set, the SDK's default chain applies: environment, profile, instance role. */
      readonly accessKeyId?: string | undefined;
      readonly secretAccessKey?: string | undefined;
    }
  | { readonly type: 'smtp'; readonly url: string; readonly from: string }
  /** Development: mail is stored in the outbox and shown, never sent. */
  | { readonly type: 'catch'; readonly from: string };

/** `off` is for test suites; `auto` exempts local programs from limits by address. */
export type LimitMode = 'auto' | 'on' | 'off';

export type AuthSettings = Omit<AuthConfig, 'email' | 'oauth'> & {
  /** Whether an `auth.email` block exists. /otp and /magiclink need it. */
  readonly emailBlock: boolean;
  readonly verifyEmail: boolean;
  /** Whether to send the confirmation mail of a sign-up that does not wait for it. */
  readonly confirmAtSignup: boolean;
  /** Lifetime of the link in that mail. */
  readonly confirmExpiryMs: number;
  readonly notices: ReadonlySet<NoticeKind>;
  readonly templates: Readonly<Record<string, TemplateOverride>>;
  readonly oauth: Readonly<Record<string, OAuthSettings>>;
  /** Undefined if no mail can be sent. */
  readonly mail: MailSettings | undefined;
  readonly maxBodyBytes: number;
  readonly projectName: string | undefined;
  readonly limits: LimitMode;
  readonly mailsPerHour: number;
};

const CONFIRM_EXPIRY_MS = 7 * 86_400_000;

export type AuthEnvironment = Readonly<Record<string, string | undefined>>;

/** Protects against accidents only: the operator chooses the mail provider and pays for it. */
const MAILS_PER_HOUR = 1000;

export function readAuthSettings(config: Config, env: AuthEnvironment, dev: boolean): AuthSettings {
  const { providers, server, project } = config;
  const { email, oauth, ...same } = config.auth;
  const limits = env['SVC_AUTH_RATE_LIMITS'];
  return {
    ...same,
    emailBlock: email !== undefined,
    verifyEmail: email?.verifyEmail ?? false,
    confirmAtSignup: email?.confirmAtSignup ?? false,
    confirmExpiryMs: email?.confirmExpiryMs ?? CONFIRM_EXPIRY_MS,
    notices: readNotices(email),
    templates: Object.fromEntries(
      (email?.templates ?? []).map(({ name, subject, body }) => [name, { subject, body }]),
    ),
    oauth: Object.fromEntries(
      oauth.map((provider) => [provider.name, { ...provider, baseUrl: env[baseUrlVariable(provider.name)] }]),
    ),
    mail: dev
      ? developmentMail(providers.email, env)
      : providers.email && toMailSettings(providers.email, env),
    maxBodyBytes: server.maxBodyBytes,
    projectName: project.name,
    limits: limits === 'on' || limits === 'off' ? limits : 'auto',
    mailsPerHour: Number(env['SVC_AUTH_MAILS_PER_HOUR']) || MAILS_PER_HOUR,
  };
}

function readNotices(email: AuthConfig['email']): ReadonlySet<NoticeKind> {
  const notices = email === undefined ? true : (email.notices ?? false);
  return new Set(typeof notices === 'boolean' ? (notices ? NOTICE_KINDS : []) : notices);
}

/**
 * Captures mail under `svc dev`. `SVC_DEV_MAIL=send` sends it; `send:me@example.com,@example.org` only to
 * these.
 */
function developmentMail(
  provider: EmailProvider | undefined,
  env: AuthEnvironment,
): MailSettings | undefined {
  const [mode, recipients] = (env['SVC_DEV_MAIL'] ?? '').split(':');
  if (provider && mode === 'send') {
    const settings = toMailSettings(provider, env);
    const onlyTo = recipients?.split(',').flatMap((recipient) => recipient.trim().toLowerCase() || []);
    return settings && { ...settings, onlyTo };
  }
  return { type: 'catch', from: provider?.defaultFromEmail ?? 'svc <dev@localhost>' };
}

/** Returns whether mail to this address is captured instead of sent. */
export function isCaptured({ type, onlyTo }: MailSettings, recipient: string): boolean {
  if (type === 'catch') return true;
  return (
    onlyTo !== undefined &&
    !onlyTo.some((allowed) => (allowed.startsWith('@') ? recipient.endsWith(allowed) : recipient === allowed))
  );
}

/** Returns for example `SVC_OAUTH_LINKEDIN_OIDC_BASE_URL` for `linkedin_oidc`. */
export function baseUrlVariable(provider: string): string {
  return `SVC_OAUTH_${provider.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}_BASE_URL`;
}

function toMailSettings(provider: EmailProvider, env: AuthEnvironment): MailSettings | undefined {
  const from = provider.defaultFromEmail;
  switch (provider.type) {
    case 'resend':
      return { type: 'resend', apiKey: provider.apiKey ?? '', from, baseUrl: env['SVC_RESEND_BASE_URL'] };
    case 'ses': {
      // The file has one key field, Amazon has two values: `ACCESS_KEY_ID:SECRET_ACCESS_KEY`.
      const [accessKeyId, secretAccessKey] = (provider.apiKey ?? '').split(':');
      const region = provider.region ?? env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'];
      return { type: 'ses', from, region, endpoint: env['SVC_SES_ENDPOINT'], accessKeyId, secretAccessKey };
    }
    case 'smtp':
      return provider.url === undefined ? undefined : { type: 'smtp', url: provider.url, from };
  }
}
