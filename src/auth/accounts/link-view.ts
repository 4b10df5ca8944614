// Builds what the page of a mailed link shows about the account, so that the owner of the mailbox can judge it. Never
// shows metadata, because the creator of the account wrote it.
import type { LinkView } from '../http/mailed-link-page.ts';
import type { AuthRequest } from '../http/request.ts';
import { findLink, isOwnConfirmation } from '../sessions/one-time-token.ts';
import { findUserById, hasVerifiedFactor, type UserRow } from '../users/user.ts';
import { proofState } from './first-proof.ts';
import { siteUrl } from './token-mail.ts';

/** Reads the account of a link. Does not use up the link. */
export async function readLinkView(request: AuthRequest, token: string): Promise<LinkView> {
  const { db } = request.auth;
  const row = await findLink(db, token, request.now);
  const user = row && (await findUserById(db, row.user_id));
  if (!row || !user || user.deleted_at) return { kind: 'plain' };
  if (row.token_type.startsWith('email_change')) {
    return user.email === null
      ? { kind: 'plain' }
      : { kind: 'email change', email: user.email, createdAt: user.created_at };
  }
  const state = proofState(user);
  if (state === 'proven') return { kind: 'plain' };
  if (isOwnConfirmation(row)) return confirmView(request, user);
  return state === 'password'
    ? { kind: 'password', setAt: user.password_set_at ?? user.created_at }
    : { kind: 'plain' };
}

function confirmView(request: AuthRequest, user: UserRow): LinkView {
  return {
    kind: 'confirm',
    email: user.email ?? '',
    site: request.settings.projectName ?? new URL(siteUrl(request)).host,
    createdAt: user.created_at,
    hasPassword: user.encrypted_password !== null,
    hasFactor: hasVerifiedFactor(user),
    identities: user.identities
      .filter((identity) => identity.provider !== 'email')
      .map(({ provider, provider_id, email }) => `${provider} (${email ?? provider_id})`),
    asksToKeep: proofState(user) === 'foreign',
  };
}
