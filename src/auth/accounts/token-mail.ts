// Mails with a one-time secret. The secret, its flow, the link and the queued mail are created in one transaction. The
// admin's `generate_link` creates the same secrets and sends nothing.
import { randomUUID } from 'node:crypto';
import type { MailKind } from '../../config/schema/names.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { Problem } from '../../problem/problem.ts';
import { chooseTarget } from '../http/redirect.ts';
import type { AuthRequest } from '../http/request.ts';
import { composeMail } from '../mail/compose.ts';
import { networkHash } from '../rate-limit.ts';
import { insertFlow, type Challenge } from '../sessions/flow-state.ts';
import { issueOneTimeToken, type IssuedToken, type TokenKind } from '../sessions/one-time-token.ts';
import type { SignInMethod } from '../sessions/session.ts';
import { readUser, updateUser, type UserRow } from '../users/user.ts';

export type LinkType = 'signup' | 'invite' | 'magiclink' | 'recovery' | 'email_change';

export type TokenOrder = {
  readonly user: UserRow;
  /** Undefined for a code without a link. */
  readonly link?: LinkType | undefined;
  readonly token: TokenKind;
  readonly to: string;
  readonly challenge?: Challenge | undefined;
  /** A flow that was begun earlier. Both mails of an email change share one flow. */
  readonly flowStateId?: string | undefined;
  /** Redeeming the secret proves the mailbox only; see `first-proof.ts`. */
  readonly revokes: boolean;
  readonly linkLifetimeMs?: number | undefined;
};

export type TokenMail = TokenOrder & { readonly mail: MailKind };

export type PreparedToken = IssuedToken & {
  readonly actionLink: string;
  /** Final destination of the link. */
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
  const { user, link, to, challenge, revokes, linkLifetimeMs } = order;
  const { body, query, header, settings, authUrl, now, presented } = request;
  const candidate = body.filled('redirect_to') ?? query.filled('redirect_to') ?? header('redirect_to');
  const target = chooseTarget(candidate, settings, authUrl);
  const flowStateId =
    order.flowStateId ?? (link && challenge && (await startEmailFlow(db, now, user, challenge, link)));
  // Administrators request secrets for other people, so any network may redeem these.
  const requester = presented.apikey.kind === 'secret' ? undefined : networkHash(request);
  const issue = {
    userId: user.id,
    kind: order.token,
    email: to,
    flowStateId,
    revokes,
    requester,
    now,
    linkLifetimeMs,
  };
  const issued = await issueOneTimeToken(request.auth, db, issue);
  const redirect = target === undefined ? '' : `&redirect_to=${readable(target)}`;
  const actionLink = `${authUrl}/verify?token=${issued.token}&type=${link ?? ''}${redirect}`;
  return { ...issued, target, actionLink };
}

/** Leaves a plain address readable, because applications look for it in the query. Encodes any other. */
function readable(target: string): string {
  return /^[\w:/.~-]+$/.test(target) ? target : encodeURIComponent(target);
}

/** Begins a flow that ends in an authorization code. Returns its id. */
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

/** Queues the mail that confirms the address of a sign-up. */
export async function queueConfirmation(
  db: Queryable,
  request: AuthRequest,
  order: Pick<TokenMail, 'user' | 'to' | 'challenge' | 'revokes'>,
): Promise<void> {
  // An invitation must stay valid when another request asks for a confirmation to its address.
  const token = order.user.invited_at ? 'recovery_token' : 'confirmation_token';
  // An account that can already sign in may confirm its address later.
  const linkLifetimeMs = order.user.email_confirmed_at ? request.settings.confirmExpiryMs : undefined;
  await queueTokenMail(db, request, { ...order, mail: 'confirm', link: 'signup', token, linkLifetimeMs });
}

/** Queues the confirmation mail, unless a mail limit is reached. The response is the same in both cases. */
export async function tryConfirmation(
  db: Queryable,
  request: AuthRequest,
  order: Pick<TokenMail, 'user' | 'challenge' | 'revokes'>,
): Promise<void> {
  const { auth, settings, now } = request;
  const { email: to, id } = order.user;
  if (!settings.mail || to === null) return;
  try {
    await auth.limiter.mailRequest(db, request, 'confirmation', to);
    await queueConfirmation(db, request, { ...order, to });
  } catch (error) {
    if (error instanceof Problem && error.status === 429) return;
    throw error;
  }
  await updateUser(db, id, now, { confirmation_sent_at: now });
}

/** Queues the confirmation mail of a sign-up that does not wait for it. */
export async function confirmAtSignup(
  db: Queryable,
  request: AuthRequest,
  userId: string,
  challenge?: Challenge,
): Promise<void> {
  if (!request.settings.confirmAtSignup) return;
  await tryConfirmation(db, request, { user: await readUser(db, userId), challenge, revokes: false });
}

/** Prepares and queues a mail; the caller wakes the outbox after the commit. */
export async function queueTokenMail(db: Queryable, request: AuthRequest, order: TokenMail): Promise<void> {
  const { auth } = request;
  // The limit of the instance counts all mails except invitations, which only administrators send.
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
  const secrets = { code, link: link && actionLink };
  await auth.outbox.enqueue(db, { ...mail, ...secrets }, user.id, request.now);
}

export function siteUrl(request: AuthRequest): string {
  return request.settings.redirectUrls[0] ?? request.authUrl.replace(/\/auth\/v1$/, '');
}
