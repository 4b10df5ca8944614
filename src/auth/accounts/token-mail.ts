// A mail with a one-time secret in it: makes the secret, the flow it ends in, the link, and queues the mail, all
// in one transaction. The admin's generate_link makes the same and sends nothing.
import type { Queryable } from '../../postgres/owner-database.ts';
import { randomUUID } from 'node:crypto';
import type { AuthContext } from '../auth-context.ts';
import { insertFlow, type Challenge } from '../sessions/flow-state.ts';
import { composeMail } from '../mail/compose.ts';
import type { MailKind } from '../../config/schema/names.ts';
import { issueOneTimeToken, type TokenKind } from '../sessions/one-time-token.ts';
import { chooseTarget } from '../http/redirect.ts';
import type { AuthRequest } from '../http/request.ts';
import type { SignInMethod } from '../sessions/session.ts';
import type { UserRow } from '../users/user.ts';

export type LinkType = 'signup' | 'invite' | 'magiclink' | 'recovery' | 'email_change';

export type TokenMail = {
  readonly user: UserRow;
  readonly mail: MailKind;
  /** Undefined for a code without a link. */
  readonly link: LinkType | undefined;
  readonly token: TokenKind;
  readonly to: string;
  readonly challenge: Challenge | undefined;
  /** One flow can end in either of two mails: both sides of an email change. */
  readonly flowStateId?: string | undefined;
  /** The mail answers somebody who need not be the one who made the account; see `email-ownership.ts`. */
  readonly expels: boolean;
};

export type PreparedToken = {
  readonly token: string;
  readonly code: string;
  readonly actionLink: string;
  readonly target: string | undefined;
};

const FLOW_METHOD: Readonly<Record<LinkType, SignInMethod>> = {
  signup: 'email/signup',
  invite: 'invite',
  magiclink: 'magiclink',
  recovery: 'recovery',
  email_change: 'email_change',
};

export async function prepareToken(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  order: TokenMail,
): Promise<PreparedToken> {
  const { user, link, to } = order;
  const candidate =
    request.body.filled('redirect_to') ??
    request.query.filled('redirect_to') ??
    request.header('redirect_to');
  const target = chooseTarget(candidate, request.settings, request.authUrl);
  const flowStateId =
    order.flowStateId ??
    (link && order.challenge ? await startEmailFlow(db, request, order, link) : undefined);
  const { token, code } = await issueOneTimeToken(auth, db, {
    userId: user.id,
    kind: order.token,
    email: to,
    flowStateId,
    expels: order.expels,
    now: request.now,
  });
  const query = `token=${token}&type=${link ?? ''}${target === undefined ? '' : `&redirect_to=${readable(target)}`}`;
  return { token, code, target, actionLink: `${request.authUrl}/verify?${query}` };
}

/** A plain address stands in a query as it is, and applications look for it there; anything else is encoded. */
function readable(target: string): string {
  return /^[\w:/.~-]+$/.test(target) ? target : encodeURIComponent(target);
}

export async function startEmailFlow(
  db: Queryable,
  request: AuthRequest,
  { user, challenge }: Pick<TokenMail, 'user' | 'challenge'>,
  link: LinkType,
): Promise<string> {
  const id = randomUUID();
  const method = FLOW_METHOD[link];
  await insertFlow(
    db,
    id,
    { providerType: method, method, challenge, referrer: undefined, userId: user.id },
    request.now,
  );
  return id;
}

/** The mail that proves the address of a sign-up. */
export async function queueConfirmation(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  { user, to, challenge, expels }: Pick<TokenMail, 'user' | 'to' | 'challenge' | 'expels'>,
): Promise<void> {
  await queueTokenMail(auth, db, request, {
    user,
    mail: 'confirm',
    link: 'signup',
    // An invitation stays good, whoever has a confirmation sent to its address meanwhile.
    token: user.invited_at ? 'recovery_token' : 'confirmation_token',
    to,
    challenge,
    expels,
  });
}

/** Prepares and queues; the outbox is woken by whoever commits. */
export async function queueTokenMail(
  auth: AuthContext,
  db: Queryable,
  request: AuthRequest,
  order: TokenMail,
): Promise<void> {
  // An invitation is the admin's own; everything else counts against what the instance sends in an hour.
  if (order.mail !== 'invite') await auth.limiter.mailSent(db, request, request.settings.mailsPerHour);
  const prepared = await prepareToken(auth, db, request, order);
  const { user, to, link } = order;
  const values = {
    ...(link === undefined
      ? {}
      : {
          ConfirmationURL: prepared.actionLink,
          TokenHash: prepared.token,
          RedirectTo: prepared.target ?? '',
        }),
    Token: prepared.code,
    SiteURL: siteUrl(request),
    Email: user.email ?? to,
    NewEmail: user.email_change ?? '',
    SendingTo: to,
    Data: user.raw_user_meta_data,
  };
  await auth.outbox.enqueue(
    db,
    composeMail(order.mail, to, values, request.settings.templates, (error) => {
      auth.log.error(
        { mail: order.mail, error: error.message },
        'a mail template of svc.yaml cannot be read',
      );
    }),
    user.id,
    request.now,
  );
}

export function siteUrl(request: AuthRequest): string {
  return request.settings.redirectUrls[0] ?? request.authUrl.replace(/\/auth\/v1$/, '');
}
