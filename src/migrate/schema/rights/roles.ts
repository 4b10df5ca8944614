// The roles of PostgreSQL that stand for callers.

export const API_ROLES = ['anon', 'authenticated', 'service_role'] as const;

/** Policies bind to these unless they say otherwise; service_role passes by attribute, the owner by ownership. */
export const POLICY_ROLES = 'anon,authenticated';

/** PostgreSQL's PUBLIC: every role. No role can have this name. */
export const PUBLIC = 'public';
