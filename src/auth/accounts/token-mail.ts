// Mails with a one-time secret. The secret, the flow it ends in, the link and the queued mail are made in one
// transaction. The admin's generate_link makes the same secrets and sends nothing.
import { randomUUID } from 'node:crypto';
import type { MailKind } from '../../config/schema/names.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { chooseTarget } from '../http/redirect.ts';
import type { AuthRequest } from '../http/request.ts';
import { composeMail } from '../mail/compose.ts';
import { insertFlow, type Challenge } from '../sessions/flow-state.ts';
import { issueOneTimeToken, type IssuedToken, type TokenKind } from '../sessions/one-time-token.ts';
import type { SignInMethod } from '../sessions/session.ts';
import type { UserRow } from '../users/user.ts';

export type LinkType = 'signup' | 'invite' | 'magiclink' | 'recovery' | 'email_change';

export type TokenOrder = {
  readonly user: UserRow;
  /** Undefined for a code without a link. */
  readonly link?: LinkType | undefined;
  readonly token: TokenKind;
  readonly to: string;
  readonly challenge?: Challenge | undefined;
  /** A flow begun earlier: the two mails of an email change share one. */
  readonly flowStateId?: string | undefined;
  /** Redeeming the secret revokes what an unproven account held before; see `email-ownership.ts`. */
  readonly revokes: boolean;
};

export type TokenMail = TokenOrder & { readonly mail: MailKind };

export type PreparedToken = IssuedToken & {
  readonly actionLink: string;
  /** Where the link leads in the end. */
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
  db: Queryable,
  request: AuthRequest,
  order: TokenOrder,
): Promise<PreparedToken> {
  const { user, link, to, challenge, revokes } = order;
  const { body, query, header, settings, authUrl, now } = request;
  const candidate = body.filled('redirect_to') ?? query.filled('redirect_to') ?? header('redirect_to');
  const target = chooseTarget(candidate, settings, authUrl);
  const flowStateId =
    order.flowStateId ?? (link && challenge && (await startEmailFlow(db, now, user, challenge, link)));
  const issue = { userId: user.id, kind: order.token, email: to, flowStateId, revokes, now };
  const issued = await issueOneTimeToken(request.auth, db, issue);
  const redirect = target === undefined ? '' : `&redirect_to=${readable(target)}`;
  const actionLink = `${authUrl}/verify?token=${issued.token}&type=${link ?? ''}${redirect}`;
  return { ...issued, target, actionLink };
}

/** Applications look for their plain address in the query; anything else is encoded. */
function readable(target: string): string {
  return /^[\w:/.~-]+$/.test(target) ? target : encodeURIComponent(target);
}

/** Begins a flow that ends in an authorization code; its id. */
export async function startEmailFlow(
  db: Queryable,
  now: Date,
  { id: userId }: UserRow,
  challenge: Challenge,
  link: LinkType,
): Promise<string> {
  const id = randomUUID();
  const method = FLOW_METHOD[link];
  await insertFlow(db, id, now, { providerType: method, method, challenge, userId });
  return id;
}

/** The mail that confirms the address of a sign-up. */
export async function queueConfirmation(
  db: Queryable,
  request: AuthRequest,
  order: Pick<TokenMail, 'user' | 'to' | 'challenge' | 'revokes'>,
): Promise<void> {
  // An invitation stays valid when somebody asks for a confirmation to its address.
  const token = order.user.invited_at ? 'recovery_token' : 'confirmation_token';
  await queueTokenMail(db, request, { ...order, mail: 'confirm', link: 'signup', token });
}

/** Prepares and queues a mail; the caller wakes the outbox after the commit. */
export async function queueTokenMail(db: Queryable, request: AuthRequest, order: TokenMail): Promise<void> {
  const { auth } = request;
  // Invitations are the admin's own; all other mails count towards the limit of the instance.
  if (order.mail !== 'invite') await auth.limiter.mailSent(db, request);
  const { token, code, actionLink, target } = await prepareToken(db, request, order);
  const { user, to, link, mail: kind } = order;
  const values = {
    ...(link && { ConfirmationURL: actionLink, TokenHash: token, RedirectTo: target ?? '' }),
    Token: code,
    SiteURL: siteUrl(request),
    Email: user.email ?? to,
    NewEmail: user.email_change ?? '',
    SendingTo: to,
    Data: user.raw_user_meta_data,
  };
  const mail = composeMail(kind, to, values, request.settings.templates, (error) => {
    auth.log.error({ mail: kind, error: error.message }, 'a mail template in svc.yaml cannot be read');
  });
  await auth.outbox.enqueue(db, mail, user.id, request.now);
}

export function siteUrl(request: AuthRequest): string {
  return request.settings.redirectUrls[0] ?? request.authUrl.replace(/\/auth\/v1$/, '');
}
