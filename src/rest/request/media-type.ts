// Content negotiation: selects the first format in the Accept header that the resource supports.
import { notAcceptable } from '../problem.ts';

export type MediaType =
  | { readonly kind: 'json' }
  | { readonly kind: 'stripped' }
  | { readonly kind: 'singular'; readonly stripped: boolean }
  | { readonly kind: 'csv' }
  | { readonly kind: 'geojson' }
  /** The value of a scalar function, without JSON around it. */
  | { readonly kind: 'raw'; readonly type: RawType }
  | { readonly kind: 'openapi'; readonly version: '2.0' | '3.1' }
  | ExplainMedia;

/** The execution plan of a response in another media type. */
export type ExplainMedia = {
  readonly kind: 'plan';
  readonly format: 'text' | 'json';
  readonly options: ReadonlyArray<(typeof PLAN_OPTIONS)[number]>;
  readonly of: MediaType;
};

type RawType = 'text/plain' | 'text/xml' | 'application/octet-stream';

const PLAN_OPTIONS = ['analyze', 'verbose', 'settings', 'buffers', 'wal'] as const;

const JSON_MEDIA: MediaType = { kind: 'json' };

type Result = {
  /** Execution plans are served in development only. */
  readonly isDev: boolean;
  /** PostGIS is installed where requests find it. */
  readonly hasGeoJson: boolean | undefined;
  /** Set for a function that returns a single value instead of rows. */
  readonly value?: 'scalar' | 'scalars' | undefined;
};

const WITHOUT_POSTGIS =
  'application/geo+json needs the extension postgis in the schema extensions or public: declare it under extensions.';

/** Negotiates the format of rows, or of a function's result. */
export function negotiateRows(accept: string | undefined, { isDev, hasGeoJson, value }: Result): MediaType {
  let isWithoutPostgis = false;
  const served = (media: MediaType): boolean => {
    if (media.kind === 'geojson' && value === undefined && hasGeoJson !== true) isWithoutPostgis = true;
    if (media.kind === 'geojson') return value === undefined && hasGeoJson === true;
    if (media.kind === 'raw') return value === 'scalar';
    if (media.kind === 'plan') return isDev && media.of.kind !== 'plan' && served(media.of);
    return media.kind !== 'openapi';
  };
  try {
    return negotiate(accept, served);
  } catch (error) {
    throw isWithoutPostgis ? notAcceptable(accept ?? '', WITHOUT_POSTGIS) : error;
  }
}

/** `served`: formats that the resource supports. */
export function negotiate(
  accept: string | undefined,
  served: (media: MediaType) => boolean,
  wildcard: MediaType = JSON_MEDIA,
): MediaType {
  if (accept === undefined || accept === '' || accept === '*/*') return wildcard;
  if (accept === 'application/json' && served(JSON_MEDIA)) return JSON_MEDIA;
  const entries = splitOutsideQuotes(accept, ',').map(readEntry);
  // A stable sort: equal weights keep the client's order.
  entries.sort((a, b) => b.quality - a.quality);
  for (const entry of entries) {
    if (entry.quality <= 0) continue;
    const media = toMediaType(entry, wildcard);
    if (media && served(media)) return media;
  }
  throw notAcceptable(accept);
}

export function contentType(media: MediaType): string {
  switch (media.kind) {
    case 'json':
      return 'application/json; charset=utf-8';
    case 'stripped':
      return 'application/vnd.pgrst.array+json;nulls=stripped; charset=utf-8';
    case 'singular':
      return `application/vnd.pgrst.object+json${media.stripped ? ';nulls=stripped' : ''}; charset=utf-8`;
    case 'csv':
      return 'text/csv; charset=utf-8';
    case 'geojson':
      return 'application/geo+json; charset=utf-8';
    case 'raw':
      return media.type === 'application/octet-stream' ? media.type : `${media.type}; charset=utf-8`;
    case 'openapi':
      return `application/${media.version === '2.0' ? '' : 'vnd.oai.'}openapi+json; charset=utf-8`;
    case 'plan': {
      const inner = contentType(media.of).replace('; charset=utf-8', '');
      const options = media.options.length > 0 ? `; options=${media.options.join('|')}` : '';
      return `application/vnd.pgrst.plan+${media.format}; for="${inner}"${options}; charset=utf-8`;
    }
  }
}

type Entry = {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
  readonly quality: number;
};

function readEntry(text: string): Entry {
  const [type = '', ...rest] = splitOutsideQuotes(text, ';');
  const parameters = new Map<string, string>();
  for (const part of rest) {
    const equals = part.indexOf('=');
    if (equals < 0) continue;
    const value = part
      .slice(equals + 1)
      .trim()
      .replaceAll('"', '');
    parameters.set(part.slice(0, equals).trim().toLowerCase(), value);
  }
  const quality = Number(parameters.get('q') ?? '1');
  return { type: type.trim().toLowerCase(), parameters, quality: Number.isNaN(quality) ? 0 : quality };
}

function toMediaType({ type, parameters }: Entry, wildcard: MediaType): MediaType | undefined {
  const stripped = parameters.get('nulls') === 'stripped';
  switch (type) {
    case '*/*':
    case 'application/*':
      return wildcard;
    case 'application/json':
      return JSON_MEDIA;
    case 'application/vnd.pgrst.array':
    case 'application/vnd.pgrst.array+json':
      return stripped ? { kind: 'stripped' } : JSON_MEDIA;
    case 'application/vnd.pgrst.object':
    case 'application/vnd.pgrst.object+json':
      return { kind: 'singular', stripped };
    case 'text/csv':
    case 'text/*':
      return { kind: 'csv' };
    case 'application/geo+json':
      return { kind: 'geojson' };
    case 'text/plain':
    case 'text/xml':
    case 'application/octet-stream':
      return { kind: 'raw', type };
    case 'application/openapi+json':
      return { kind: 'openapi', version: '2.0' };
    case 'application/vnd.oai.openapi+json':
      return { kind: 'openapi', version: '3.1' };
    case 'application/vnd.pgrst.plan':
    case 'application/vnd.pgrst.plan+text':
    case 'application/vnd.pgrst.plan+json': {
      const wanted = new Set((parameters.get('options') ?? '').toLowerCase().split('|'));
      const inner = parameters.get('for');
      return {
        kind: 'plan',
        format: type.endsWith('+json') ? 'json' : 'text',
        options: PLAN_OPTIONS.filter((option) => wanted.has(option)),
        of: (inner === undefined ? undefined : toMediaType(readEntry(inner), JSON_MEDIA)) ?? JSON_MEDIA,
      };
    }
    default:
      return undefined;
  }
}

function splitOutsideQuotes(text: string, separator: ',' | ';'): string[] {
  if (!text.includes('"')) return text.split(separator);
  const parts: string[] = [];
  let from = 0;
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at);
    if (char === '"') quoted = !quoted;
    else if (char === separator && !quoted) {
      parts.push(text.slice(from, at));
      from = at + 1;
    }
  }
  parts.push(text.slice(from));
  return parts;
}
