// Settings: pool, origins, providers, auth.
import { formatDuration } from '../../lib/duration.ts';
import { isAddressEntry, isEverything } from '../../lib/ip-address.ts';
import { MAIL_TEMPLATES, OAUTH_PROVIDERS } from '../schema/names.ts';
import type { KeyPath } from '../mistakes/mistake.ts';
import { type CheckContext, didYouMean } from './context.ts';
import { checkBodyFile } from './referenced-file.ts';

/** Client libraries refresh a token 90 seconds before it expires. */
const MIN_TOKEN_MS = 120_000;
const SHORT_TOKEN_MS = 300_000;

export function checkSettings(context: CheckContext): void {
  checkServer(context);
  checkTrustedProxies(context);
  checkProviders(context);
  checkTokens(context);
  checkMail(context);
  checkOAuth(context);
}

function checkServer(context: CheckContext): void {
  const { database, server } = context.file;
  const { min, max } = database.pool;
  const path = ['database', 'pool', 'min'];
  if (min > max && context.isWritten(path) && context.isWritten(['database', 'pool', 'max'])) {
    context.report({
      code: 'conflict',
      path,
      message: `min (${min}) is greater than max (${max})`,
      hint: 'min is the number of idle connections that stay open.',
      causes: [['database', 'pool', 'max']],
    });
  }
  const wait = ['database', 'failover_wait'];
  const deadline = server.timeouts.requestMs;
  if (database.failoverWaitMs >= deadline && context.isWritten(wait)) {
    context.report({
      code: 'conflict',
      path: wait,
      message:
        `requests time out after ${formatDuration(deadline)}, ` +
        `before a failover_wait of ${formatDuration(database.failoverWaitMs)} ends`,
      hint: 'Write less than server.timeouts.request.',
      causes: [['server', 'timeouts', 'request']],
    });
  }
  server.cors.origins.forEach((origin, index) => {
    const path: KeyPath = ['server', 'cors', 'origins', index];
    if (origin === '*' || origin === 'null' || isOrigin(origin)) return;
    const whole = URL.canParse(origin) ? new URL(origin).origin : 'null';
    context.badValue(
      path,
      `${context.quote(path, origin)} is not an origin`,
      whole === 'null'
        ? 'An origin is scheme and host: https://app.example.com; "*" allows all.'
        : 'An origin is scheme, host and port, without a path or a trailing slash.',
    );
  });
}

function checkTrustedProxies(context: CheckContext): void {
  context.file.server.trustedProxies?.forEach((entry, index) => {
    const path: KeyPath = ['server', 'trusted_proxies', index];
    if (!isAddressEntry(entry)) {
      context.badValue(
        path,
        `${context.quote(path, entry)} is not an address`,
        'Write an address (192.0.2.1), a range (10.0.0.0/8, 2001:db8::/32), loopback or private.',
      );
    } else if (isEverything(entry)) {
      context.report({
        code: 'bad-value',
        path,
        message: `${context.quote(path, entry)} trusts every client: a client can then choose its own address`,
        hint: 'Name the addresses of your proxies.',
        severity: context.options.strict ? 'error' : 'warning',
      });
    }
  });
}

/** Browsers send origins in this normal form, and svc compares text. */
function isOrigin(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { origin, protocol, host } = new URL(text);
  return text === (origin === 'null' ? `${protocol}//${host}` : origin);
}

function checkProviders(context: CheckContext): void {
  const { email, storage } = context.file.providers;
  if (email?.type === 'resend' && email.apiKey === undefined)
    reportMissing(context, ['providers', 'email'], {
      key: 'api_key',
      hint: 'Write api_key: ${RESEND_API_KEY}.',
      because: 'type',
    });
  if (email?.type === 'smtp' && email.url === undefined) {
    const hint = 'Write url: ${SMTP_URL}, for example smtp://user:password@host:587.';
    reportMissing(context, ['providers', 'email'], { key: 'url', hint, because: 'type' });
  }
  // A value that does not resemble an address is a placeholder for a variable that is set elsewhere.
  if (
    email?.type === 'smtp' &&
    email.url !== undefined &&
    /[.:@/]/.test(email.url) &&
    !isSmtpUrl(email.url)
  ) {
    context.badValue(
      ['providers', 'email', 'url'],
      'url is not the address of a mail server',
      'For example smtp://user:password@host:587; write / @ # ? and % in the password as %2F %40 %23 %3F %25.',
    );
  }
  if (storage?.type === 's3' && !storage.s3)
    reportMissing(context, ['providers', 'storage'], {
      key: 's3',
      hint: 'Write s3: { bucket: …, region: … }.',
      because: 'type',
    });
  const { s3 } = storage ?? {};
  if (s3 && (s3.accessKeyId === undefined) !== (s3.secretAccessKey === undefined)) {
    const [missing, present] =
      s3.accessKeyId === undefined
        ? (['access_key_id', 'secret_access_key'] as const)
        : (['secret_access_key', 'access_key_id'] as const);
    const hint = 'Write both, or neither to use the credentials of the environment.';
    reportMissing(context, ['providers', 'storage', 's3'], { key: missing, hint, because: present });
  }
  if (s3?.endpoint !== undefined && !isHttpUrl(s3.endpoint)) {
    const path = ['providers', 'storage', 's3', 'endpoint'];
    context.badValue(
      path,
      `${context.quote(path, s3.endpoint)} is not a URL`,
      'For example https://store.example.com:9000.',
    );
  }
}

function isSmtpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return (protocol === 'smtp:' || protocol === 'smtps:') && hostname !== '';
}

/** Reports a missing key that another key, `because`, requires. */
function reportMissing(
  context: CheckContext,
  path: KeyPath,
  { key, hint, because }: { readonly key: string; readonly hint: string; readonly because?: string },
): void {
  const missing = [...path, key];
  if (context.broken.covers(missing)) return;
  const causes = [missing, ...(because === undefined ? [] : [[...path, because]])];
  context.report({ code: 'missing-key', path, message: `"${key}" is missing`, hint, part: 'key', causes });
}

function checkTokens(context: CheckContext): void {
  const { auth } = context.file;
  if (auth.refresh_tokens !== undefined) {
    context.report({
      code: 'deprecated',
      path: ['auth', 'refresh_tokens'],
      message: 'refresh_tokens is ignored: refresh tokens are always issued',
      severity: 'warning',
      hint: 'Remove it.',
      part: 'key',
    });
  }
  const path = ['auth', 'jwt_expiry'];
  const expiry = auth.jwt_expiry;
  const shown = context.quote(path, expiry);
  if (expiry < MIN_TOKEN_MS) {
    context.report({
      code: 'bad-value',
      path,
      message: `${shown} is too short: client libraries refresh 90 seconds before expiry, so before every request`,
      severity: 'warning',
      hint: 'Use 2m or more. 5m or more is usual.',
    });
  } else if (expiry < SHORT_TOKEN_MS) {
    context.report({
      code: 'bad-value',
      path,
      message: `${shown} makes clients refresh very often`,
      severity: 'warning',
      hint: 'Use 5m or more.',
    });
  }
}

function checkMail(context: CheckContext): void {
  const { auth, providers } = context.file;
  const provider = ['providers', 'email'];
  if (auth.email?.verify_email && !providers.email && !context.broken.touches(provider)) {
    const isDevelopment = context.options.mode === 'development';
    context.report({
      code: 'conflict',
      path: ['auth', 'email', 'verify_email'],
      causes: [provider],
      message: isDevelopment
        ? 'mail is captured; svc serve needs a mail provider to verify addresses'
        : 'addresses cannot be verified without a mail provider',
      hint: isDevelopment
        ? 'Add providers.email before svc serve.'
        : 'Add providers.email, or set verify_email: false.',
      severity: isDevelopment ? 'warning' : 'error',
    });
  }
  const kinds = new Map<string, string>();
  for (const [name, template] of Object.entries(auth.email?.templates ?? {})) {
    if (context.isFull) return;
    const path = ['auth', 'email', 'templates', name];
    const kind = MAIL_TEMPLATES.get(name);
    const earlier = kind === undefined ? undefined : kinds.get(kind);
    if (kind === undefined) {
      context.report({
        code: 'unknown-key',
        path,
        message: `there is no mail called ${JSON.stringify(name)}`,
        hint: () =>
          didYouMean(name, MAIL_TEMPLATES.keys()) ??
          `Known mails: ${[...new Set(MAIL_TEMPLATES.values())].join(', ')}.`,
        part: 'key',
      });
    } else if (earlier !== undefined) {
      context.report({
        code: 'duplicate',
        path,
        message: `${earlier} and ${name} are the same mail`,
        hint: 'Merge the two.',
        part: 'key',
      });
    } else kinds.set(kind, name);
    if (template.body !== undefined && template.body_file !== undefined) {
      context.report({
        code: 'conflict',
        path: [...path, 'body_file'],
        message: 'a template has either body or body_file',
        hint: 'Remove one of the two.',
        part: 'key',
        causes: [[...path, 'body']],
      });
    } else if (template.body_file !== undefined) {
      checkBodyFile(context, [...path, 'body_file'], template.body_file);
    }
  }
}

function checkOAuth(context: CheckContext): void {
  for (const [name, provider] of Object.entries(context.file.auth.oauth)) {
    if (context.isFull) return;
    const path = ['auth', 'oauth', name];
    if (!OAUTH_PROVIDERS.has(name) && provider.issuer === undefined) {
      context.report({
        code: 'unknown-key',
        path,
        message: `there is no built-in provider called ${JSON.stringify(name)}`,
        hint: () => didYouMean(name, OAUTH_PROVIDERS) ?? 'Write its OIDC issuer: issuer: https://….',
        part: 'key',
      });
    }
    if (name === 'keycloak' && provider.url === undefined) {
      reportMissing(context, path, {
        key: 'url',
        hint: 'Write the realm: url: https://host/realms/<realm>.',
      });
    }
    for (const key of ['issuer', 'url'] as const) {
      const value = provider[key];
      if (value === undefined || isHttpUrl(value)) continue;
      context.badValue(
        [...path, key],
        `${context.quote([...path, key], value)} is not a URL`,
        'For example https://login.example.com.',
      );
    }
    checkCallback(context, [...path, 'redirect_url'], name, provider.redirectUrl);
  }
}

function checkCallback(context: CheckContext, path: KeyPath, provider: string, url: string): void {
  const callback = `/auth/v1/callback/${provider}`;
  // Compares the text and not the parsed path, because providers do not accept a query or a fragment.
  if (isHttpUrl(url) && url.endsWith(callback) && !/[?#]/.test(url)) return;
  context.badValue(
    path,
    `${context.quote(path, url)} is not the callback URL of this service`,
    `Write {base_url}${callback}.`,
  );
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && /^https?:\/\/[^/]/i.test(text);
}
