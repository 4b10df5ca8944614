// POST /invite: an account without a password, and a mail that opens it.
import type { Queryable } from '../../../postgres/owner-database.ts';
import { randomUUID } from 'node:crypto';
import { must } from '../../../lib/assert.ts';
import type { AuthContext } from '../../auth-context.ts';
import { ADMIN_ACTOR, recordAudit } from '../../audit.ts';
import { parseEmail } from '../../users/email-address.ts';
import type { JsonObject } from '../../fields.ts';
import { dropPassword, isProven } from '../../accounts/email-ownership.ts';
import { mergeMetadata } from '../../users/metadata.ts';
import { emailExists, emailProviderDisabled } from '../../problem.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';
import { queueTokenMail } from '../../accounts/token-mail.ts';
import {
  findUserByEmail,
  findUserById,
  insertEmailIdentity,
  insertUser,
  toUserJson,
  updateUser,
  type UserRow,
} from '../../users/user.ts';

export async function invite(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  const { body, settings, now } = request;
  const email = parseEmail(body.text('email'));
  const data = mergeMetadata({}, body.object('data'));
  if (!settings.mail) throw emailProviderDisabled(422);
  const user = await auth.db.transaction(async (db) => {
    const invited = await inviteUser(db, email, data, now);
    await updateUser(db, invited.id, { invited_at: now, confirmation_sent_at: now }, now);
    await queueTokenMail(auth, db, request, {
      user: invited,
      mail: 'invite',
      link: 'invite',
      token: 'confirmation_token',
      to: email,
      challenge: undefined,
      expels: true,
    });
    await recordAudit(db, {
      action: 'user_invited',
      actor: ADMIN_ACTOR,
      ip: request.ip,
      now,
      traits: { user_id: invited.id, user_email: email },
    });
    return must(await findUserById(db, invited.id), 'the invited user');
  });
  auth.outbox.wake();
  return json(toUserJson(user));
}

/** The waiting user of that address, or a new one without a password. */
export async function inviteUser(
  db: Queryable,
  email: string,
  data: JsonObject,
  now: Date,
): Promise<UserRow> {
  const known = await findUserByEmail(db, email);
  if (known?.email_confirmed_at) throw emailExists();
  if (known) return await reinvite(db, known, data, now);
  const id = randomUUID();
  await insertUser(
    db,
    {
      id,
      email,
      passwordHash: null,
      userMetadata: data,
      appMetadata: { provider: 'email', providers: ['email'] },
      isAnonymous: false,
      confirmed: false,
      proven: false,
      invited: true,
    },
    now,
  );
  await insertEmailIdentity(db, { id, email }, {}, false, now);
  return must(await findUserById(db, id), 'the invited user');
}

/** What the admin writes about the invited replaces what a stranger wrote; an earlier invitation's is added to. */
async function reinvite(db: Queryable, known: UserRow, data: JsonObject, now: Date): Promise<UserRow> {
  if (!isProven(known)) await dropPassword(db, known, now);
  const user = must(await findUserById(db, known.id), 'the invited user');
  if (Object.keys(data).length > 0) {
    const metadata = mergeMetadata(user.raw_user_meta_data, data);
    await updateUser(db, user.id, { raw_user_meta_data: JSON.stringify(metadata) }, now);
    user.raw_user_meta_data = metadata;
  }
  return user;
}
