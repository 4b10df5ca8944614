// /admin/audit and /admin/mails: the audit log and the mail outbox.
import { sql } from '../../../postgres/sql.ts';
import { listOutbox } from '../../mail/outbox.ts';
import { readEmail } from '../../users/email-address.ts';
import { pageHeaders, readPage } from '../../http/pagination.ts';
import { problems } from '../../problem.ts';
import { json, type Answer, type AuthRequest } from '../../http/request.ts';

type AuditRow = { id: string; payload: Record<string, unknown>; created_at: Date; ip_address: string };

const SCOPES = {
  author: ['actor_username', 'actor_name'],
  action: ['action'],
  type: ['log_type'],
} as const;

export async function listAudit(request: AuthRequest): Promise<Answer> {
  const { auth } = request;
  const page = readPage(request.query);
  const { keys, text } = readFilter(request.query.filled('query'));
  const pattern = `%${text.replaceAll(/[\\%_]/g, '\\$&')}%`;
  const matching = sql`from auth.audit_log_entries
    where cardinality(${keys}::text[]) = 0
      or exists (select from unnest(${keys}::text[]) key where payload ->> key ilike ${pattern})`;
  const rows = await auth.db.query<AuditRow>(sql`
    select id, payload, created_at, ip_address ${matching}
    order by created_at desc, id limit ${page.perPage} offset ${page.offset}`);
  const [total] = await auth.db.query<{ count: number }>(sql`select count(*)::float8 as count ${matching}`);
  return json(rows, pageHeaders('/auth/v1/admin/audit', page, total?.count ?? 0));
}

function readFilter(query: string | undefined): { keys: readonly string[]; text: string } {
  if (query === undefined) return { keys: [], text: '' };
  const at = query.indexOf(':');
  const scope = query.slice(0, Math.max(0, at));
  if (scope !== 'author' && scope !== 'action' && scope !== 'type') {
    throw problems.validationFailed('query must be author:text, action:text or type:text');
  }
  return { keys: [...SCOPES[scope]], text: query.slice(at + 1) };
}

/** Lists the outbox. Captured mail is shown with its content, other mail only with its delivery state. */
export async function listMails(request: AuthRequest): Promise<Answer> {
  const { auth } = request;
  const limit = Math.min(request.query.count('limit') ?? 50, 200);
  const typed = request.query.filled('to');
  const to = typed === undefined ? undefined : (readEmail(typed) ?? typed.toLowerCase());
  return json({ mails: await listOutbox(auth.db, { limit, to, box: auth.boxes.mail }) });
}
