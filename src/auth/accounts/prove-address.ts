// Applies the first proof of an address and records it: an audit entry, and a notice to the mailbox.
import type { Queryable } from '../../postgres/owner-database.ts';
import { recordAudit } from '../audit.ts';
import type { AuthRequest } from '../http/request.ts';
import { queueNotice } from '../mail/notice.ts';
import type { UserRow } from '../users/user.ts';
import { applyFirstProof, type Proof, type ProofOutcome } from './first-proof.ts';

export type RecordedProof = Proof & {
  /** False if the client sets a password next. */
  readonly notifies?: boolean | undefined;
};

/** Applies the decision table to a locked user, and records what it changed. */
export async function proveAddress(
  db: Queryable,
  request: AuthRequest,
  user: UserRow,
  proof: RecordedProof,
): Promise<ProofOutcome> {
  const outcome = await applyFirstProof(db, user, proof);
  const { next, removed } = outcome;
  if (removed.length > 0) {
    await recordAudit(db, request, 'credentials_revoked', user, { removed });
    if (next === 'proven' && proof.kind !== 'admin' && proof.notifies !== false) {
      const values = { PasswordRemoved: removed.includes('password') };
      await queueNotice(db, request, { kind: 'credentials_removed', user, values });
    }
  }
  const isSignIn = proof.kind === 'mailbox' || proof.kind === 'provider';
  if (isSignIn && (next === 'guarded' || next === 'refused')) {
    await recordAudit(db, request, 'guarded_proof', user, { proof: proof.kind });
    await queueNotice(db, request, { kind: 'guarded_sign_in', user });
  }
  return outcome;
}
