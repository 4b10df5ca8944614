// The settings of auth, from svc.yaml and the environment. The rest of auth reads these and never the file.
import type { AuthConfig, Config, EmailProvider, EmailTemplate, OAuthProvider } from '../config/config.ts';

export type TemplateOverride = Partial<Pick<EmailTemplate, 'subject' | 'body'>>;

export type OAuthSettings = Omit<OAuthProvider, 'name' | 'position' | 'emailOptional'> & {
  readonly emailOptional?: OAuthProvider['emailOptional'];
  /** From the environment: replaces the provider's own address, for tests and private gateways. */
  readonly baseUrl?: string | undefined;
};

export type MailSettings =
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
      /** Without a key the SDK's own chain applies: environment, profile, instance role. */
      readonly accessKeyId?: string | undefined;
      readonly secretAccessKey?: string | undefined;
    }
  | { readonly type: 'smtp'; readonly url: string; readonly from: string }
  /** Development: kept in the outbox and shown, never sent. */
  | { readonly type: 'catch'; readonly from: string };

/** `off` is for test suites; `auto` exempts programs of this machine from limits by address. */
export type LimitMode = 'auto' | 'on' | 'off';

export type AuthSettings = Omit<AuthConfig, 'email' | 'oauth'> & {
  /** Whether an `auth.email` block exists: /otp and /magiclink are mounted only then. */
  readonly emailBlock: boolean;
  readonly verifyEmail: boolean;
  readonly templates: Readonly<Record<string, TemplateOverride>>;
  readonly oauth: Readonly<Record<string, OAuthSettings>>;
  /** Undefined when no mail can be sent. */
  readonly mail: MailSettings | undefined;
  readonly maxBodyBytes: number;
  readonly projectName: string | undefined;
  readonly limits: LimitMode;
  readonly mailsPerHour: number;
};

export type AuthEnvironment = Readonly<Record<string, string | undefined>>;

/** Protects against accidents only: the mail provider, and so the bill, is the operator's own. */
const MAILS_PER_HOUR = 1000;

export function readAuthSettings(config: Config, env: AuthEnvironment, dev: boolean): AuthSettings {
  const { providers, server, project } = config;
  const { email, oauth, ...same } = config.auth;
  const limits = env['SVC_AUTH_RATE_LIMITS'];
  return {
    ...same,
    emailBlock: email !== undefined,
    verifyEmail: email?.verifyEmail ?? false,
    templates: Object.fromEntries(
      (email?.templates ?? []).map(({ name, subject, body }) => [name, { subject, body }]),
    ),
    oauth: Object.fromEntries(
      oauth.map((provider) => [provider.name, { ...provider, baseUrl: env[baseUrlVariable(provider.name)] }]),
    ),
    mail: providers.email
      ? toMailSettings(providers.email, env)
      : dev
        ? { type: 'catch', from: 'svc <dev@localhost>' }
        : undefined,
    maxBodyBytes: server.maxBodyBytes,
    projectName: project.name,
    limits: limits === 'on' || limits === 'off' ? limits : 'auto',
    mailsPerHour: Number(env['SVC_AUTH_MAILS_PER_HOUR']) || MAILS_PER_HOUR,
  };
}

/** `SVC_OAUTH_LINKEDIN_OIDC_BASE_URL` for `linkedin_oidc`. */
export function baseUrlVariable(provider: string): string {
  return `SVC_OAUTH_${provider.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}_BASE_URL`;
}

function toMailSettings(provider: EmailProvider, env: AuthEnvironment): MailSettings | undefined {
  const from = provider.defaultFromEmail;
  switch (provider.type) {
    case 'resend':
      return { type: 'resend', apiKey: provider.apiKey ?? '', from, baseUrl: env['SVC_RESEND_BASE_URL'] };
    case 'ses': {
      // One key field in the file, two halves at Amazon: `ACCESS_KEY_ID:SECRET_ACCESS_KEY`.
      const [accessKeyId, secretAccessKey] = (provider.apiKey ?? '').split(':');
      const region = provider.region ?? env['AWS_REGION'] ?? env['AWS_DEFAULT_REGION'];
      return { type: 'ses', from, region, endpoint: env['SVC_SES_ENDPOINT'], accessKeyId, secretAccessKey };
    }
    case 'smtp':
      return provider.url === undefined ? undefined : { type: 'smtp', url: provider.url, from };
  }
}
