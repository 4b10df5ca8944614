// POST /invite: an account without a password, and a mail that opens it.
import { randomUUID } from 'node:crypto';
import { must } from '../../lib/assert.ts';
import type { AuthContext, Db } from '../auth-context.ts';
import { ADMIN_ACTOR, recordAudit } from '../audit.ts';
import { parseEmail } from '../email-address.ts';
import type { JsonObject } from '../fields.ts';
import { mergeMetadata } from '../metadata.ts';
import { emailExists, emailProviderDisabled } from '../problem.ts';
import { json, type Answer, type AuthRequest } from '../request.ts';
import { queueTokenMail } from '../token-mail.ts';
import {
  findUserByEmail,
  findUserById,
  insertEmailIdentity,
  insertUser,
  toUserJson,
  updateUser,
  type UserRow,
} from '../user.ts';

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
export async function inviteUser(db: Db, email: string, data: JsonObject, now: Date): Promise<UserRow> {
  const known = await findUserByEmail(db, email);
  if (known?.email_confirmed_at) throw emailExists();
  if (known) return known;
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
