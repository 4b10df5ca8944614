// PostgreSQL roles of API callers.

export const API_ROLES = ['anon', 'authenticated', 'service_role'] as const;

/** Default roles of a policy. `service_role` has BYPASSRLS, and the owner of a table bypasses its policies. */
export const POLICY_ROLES = 'anon,authenticated';

/** PUBLIC, which means all roles. PostgreSQL reserves this name. */
export const PUBLIC = 'public';
