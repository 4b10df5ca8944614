// The target of a request line. Forward proxies send it in absolute form, with scheme and host (RFC 9112, 3.2.2).

const ABSOLUTE = /^https?:\/\/[^/?#]*/i;

/** Returns path and query. */
export function originForm(target: string): string {
  if (target.startsWith('/') || !ABSOLUTE.test(target)) return target;
  const rest = target.replace(ABSOLUTE, '');
  return rest.startsWith('/') ? rest : `/${rest}`;
}
