// Role, claims and other settings of a request. Settings about the request itself are sent only if SQL in the
// database reads them.
import type { CallerSettings } from '../../postgres/pool/caller-pool.ts';
import { quoteIdent } from '../../postgres/sql.ts';
import type { Exchange } from '../exchange.ts';
import type { ApiRequest } from '../request/api-request.ts';
import { timeZoneSetting } from './time-zone.ts';

export function callerSettings({ caller, exposed, request }: Exchange): CallerSettings {
  const extra: Array<readonly [string, string]> = [];
  const schemas = [...new Set([request.schema, 'public'])];
  // Operators and functions of extensions are only found through the search path.
  if (exposed.catalog.hasExtensions) schemas.push('extensions');
  if (schemas.length > 1) extra.push(['search_path', schemas.map(quoteIdent).join(', ')]);
  const { timezone } = request.preferences;
  if (timezone !== undefined) extra.push(['timezone', timeZoneSetting(timezone)]);
  const used = exposed.catalog.usedSettings;
  if (used.size > 0) {
    if (used.has('request.method')) extra.push(['request.method', request.method]);
    if (used.has('request.path')) extra.push(['request.path', request.path]);
    if (used.has('request.headers')) extra.push(['request.headers', headersJson(request)]);
    if (used.has('request.cookies')) extra.push(['request.cookies', cookiesJson(request.headers.cookie)]);
  }
  return extra.length === 0 ? caller : { ...caller, extra };
}

function headersJson({ headers }: ApiRequest): string {
  const shown: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (name === 'cookie' || value === undefined) continue;
    shown[name] = Array.isArray(value) ? (value.at(-1) ?? '') : value;
  }
  return JSON.stringify(shown);
}

function cookiesJson(header: string | undefined): string {
  const cookies: Record<string, string> = Object.create(null);
  for (const pair of (header ?? '').split(';')) {
    const equals = pair.indexOf('=');
    if (equals > 0) cookies[pair.slice(0, equals).trim()] = pair.slice(equals + 1).trim();
  }
  return JSON.stringify(cookies);
}
