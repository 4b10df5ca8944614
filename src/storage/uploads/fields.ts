// Reads the metadata of an upload from headers or form fields. Values that are sent as headers later are validated.
import type { FastifyRequest } from 'fastify';
import { isStorableJson } from '../../http/storable-json.ts';
import { isHeaderValue } from '../objects/content-type.ts';
import type { UserMetadata } from '../objects/object.ts';
import { invalidRequest, invalidRobotsTag } from '../problem.ts';

export type UploadFields = {
  readonly contentType: string;
  readonly cacheControl: string;
  readonly contentEncoding: string | undefined;
  readonly robots: string | undefined;
  readonly userMetadata: UserMetadata;
};

export const DEFAULT_CONTENT_TYPE = 'application/octet-stream';
const DEFAULT_CACHE_CONTROL = 'no-cache';

/** Reads the fields of an upload whose body is the file. */
export function rawFields(request: FastifyRequest): UploadFields {
  const { headers } = request;
  return {
    contentType: headers['content-type'] ?? DEFAULT_CONTENT_TYPE,
    cacheControl: headerValue('Cache-Control', headers['cache-control']) ?? DEFAULT_CACHE_CONTROL,
    contentEncoding: headerValue('Content-Encoding', headers['content-encoding']),
    robots: readRobots(request),
    userMetadata: readMetadataHeader(headers['x-metadata']),
  };
}

/**
 * Reads the fields of a form. `partType` is the media type of its file part. Form fields override headers.
 */
export function formFields(
  form: ReadonlyMap<string, string>,
  partType: string | undefined,
  fromHeaders: { readonly robots: string | undefined; readonly userMetadata: UserMetadata },
): UploadFields {
  const maxAge = headerValue('cacheControl', form.get('cacheControl'));
  return {
    contentType: form.get('contentType') ?? partType ?? DEFAULT_CONTENT_TYPE,
    cacheControl: maxAge === undefined ? DEFAULT_CACHE_CONTROL : `max-age=${maxAge}`,
    contentEncoding: headerValue('contentEncoding', form.get('contentEncoding')),
    robots: fromHeaders.robots,
    userMetadata: readMetadata(form.get('metadata') ?? form.get('userMetadata')) ?? fromHeaders.userMetadata,
  };
}

/** Reads the fields of a resumable upload from `Upload-Metadata`. */
export function tusFields(
  metadata: ReadonlyMap<string, string>,
): Pick<UploadFields, 'contentType' | 'cacheControl' | 'userMetadata'> {
  const seconds = metadata.get('cacheControl') ?? '';
  return {
    contentType: metadata.get('contentType') ?? DEFAULT_CONTENT_TYPE,
    cacheControl: /^\d+$/.test(seconds) ? `max-age=${seconds}` : DEFAULT_CACHE_CONTROL,
    userMetadata: readMetadata(metadata.get('metadata')) ?? null,
  };
}

export function readMetadataHeader(header: string | string[] | undefined): Record<string, unknown> {
  if (typeof header !== 'string') return {};
  return readMetadata(Buffer.from(header, 'base64').toString('utf8')) ?? {};
}

/** A JSON object; undefined for other text: like Supabase Storage, the API ignores unreadable metadata. */
function readMetadata(json: string | undefined): Record<string, unknown> | undefined {
  const value = json === undefined ? undefined : parse(json);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  if (!isStorableJson(value))
    throw invalidRequest('metadata must not contain NUL characters or lone surrogates');
  return { ...value };
}

function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

const ROBOTS_RULE =
  /^(all|none|noindex|nofollow|noarchive|nosnippet|noimageindex|notranslate|indexifembedded|nocache|max-snippet:\s*-?\d+|max-image-preview:\s*(none|standard|large)|max-video-preview:\s*-?\d+|unavailable_after:\s*[\w :,+-]+)$/i;

export function readRobots(request: FastifyRequest): string | undefined {
  const header = request.headers['x-robots-tag'];
  if (header === undefined) return undefined;
  const value = Array.isArray(header) ? header.join(', ') : header;
  if (value.length > 512 || !isHeaderValue(value)) throw invalidRobotsTag('malformed value');
  for (const part of value.split(',')) {
    const rule = part.trim();
    // A rule may name a crawler: "googlebot: noindex".
    const named = /^[a-z][\w.-]*\s*:\s*(.+)$/i.exec(rule)?.[1];
    if (!ROBOTS_RULE.test(rule) && !(named !== undefined && ROBOTS_RULE.test(named))) {
      throw invalidRobotsTag(`unknown rule "${rule.slice(0, 60)}"`);
    }
  }
  return value;
}

/** Undefined when empty; refused when it cannot be sent as a header. */
function headerValue(name: string, value: string | undefined): string | undefined {
  if (value === undefined || value === '') return undefined;
  if (value.length > 1024 || !isHeaderValue(value))
    throw invalidRequest(`${name} cannot be sent as a header`);
  return value;
}
