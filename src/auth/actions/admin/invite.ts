// POST /invite: creates an account without a password and mails a link that signs in to it.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { recordAdmin } from '../../audit.ts';
import { parseEmail } from '../../users/email-address.ts';
import type { JsonObject } from '../../fields.ts';
import { applyFirstProof } from '../../accounts/first-proof.ts';
import { mergeMetadata } from '../../users/metadata.ts';
import { problems } from '../../problem.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { queueTokenMail } from '../../accounts/token-mail.ts';
import {
  findUserByEmail,
  readUser,
  insertEmailUser,
  lockUser,
  toUserJson,
  updateUser,
  type UserRow,
} from '../../users/user.ts';

export async function invite(request: AuthRequest): Promise<Answer> {
  const { auth, body, settings, now } = request;
  const email = parseEmail(body.text('email'));
  const data = mergeMetadata({}, body.object('data'));
  if (!settings.mail) throw problems.noMailProvider();
  const user = await auth.db.transaction(async (db) => {
    const invited = await inviteUser(db, email, data, now);
    await updateUser(db, invited.id, now, { invited_at: now, confirmation_sent_at: now });
    await queueTokenMail(db, request, {
      user: invited,
      mail: 'invite',
      link: 'invite',
      token: 'confirmation_token',
      to: email,
      revokes: true,
    });
    await recordAdmin(db, request, 'user_invited', invited);
    return await readUser(db, invited.id);
  });
  auth.outbox.wake();
  return json(toUserJson(user));
}

/** Returns the unconfirmed user with that address, or a new user without a password. */
export async function inviteUser(
  db: Queryable,
  email: string,
  data: JsonObject,
  now: Date,
): Promise<UserRow> {
  const known = await findUserByEmail(db, email);
  if (known?.email_confirmed_at) throw problems.emailExists();
  if (known) return await reinvite(db, known, data, now);
  const order = { email, passwordHash: null, data, confirmed: false, byAdmin: true, invited: true };
  return await readUser(db, await insertEmailUser(db, now, order));
}

/** Removes an unproven password, and merges the metadata of the invitation into the user's. */
async function reinvite(db: Queryable, known: UserRow, data: JsonObject, now: Date): Promise<UserRow> {
  await applyFirstProof(db, (await lockUser(db, known.id)) ?? known, { kind: 'claim', now });
  const user = await readUser(db, known.id);
  if (Object.keys(data).length > 0) {
    const metadata = mergeMetadata(user.raw_user_meta_data, data);
    await updateUser(db, user.id, now, { raw_user_meta_data: metadata });
    user.raw_user_meta_data = metadata;
  }
  return user;
}
