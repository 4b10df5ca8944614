// Bucket names and object paths. A path is a name in the database and never becomes part of a file path or of a
// store's key; the rules keep it printable and unambiguous in a URL.
import { RESERVED_BUCKETS } from '../../config/schema/names.ts';
import { invalidBucketName, invalidKey } from '../problem.ts';

declare const brand: unique symbol;
/** A checked object path inside a bucket. */
export type ObjectPath = string & { readonly [brand]: 'ObjectPath' };

const MAX_PATH_BYTES = 1024;
const MAX_BUCKET_LENGTH = 100;
// ASCII only: two Unicode spellings of one letter cannot name two objects.
const PATH_CHARACTERS = /^[A-Za-z0-9_/!\-.*'() &$@=;:+,?]+$/;
const BUCKET_CHARACTERS = /^[A-Za-z0-9_!\-.*'() &$@=;:+,?]+$/;

/** Dashboards keep an empty folder alive with an object of this name: without bytes, whatever the bucket's rules. */
export function isFolderPlaceholder(name: string): boolean {
  return name.endsWith('.emptyFolderPlaceholder');
}

export function isObjectPath(name: string): name is ObjectPath {
  if (name.length === 0 || name.length > MAX_PATH_BYTES || !PATH_CHARACTERS.test(name)) return false;
  if (name.startsWith('/') || name.endsWith('/')) return false;
  return !name.split('/').some((segment) => segment === '.' || segment === '..');
}

export function parseObjectPath(name: string): ObjectPath {
  if (!isObjectPath(name)) throw invalidKey(name);
  return name;
}

export function isBucketName(name: string): boolean {
  return (
    name.length > 0 &&
    name.length <= MAX_BUCKET_LENGTH &&
    BUCKET_CHARACTERS.test(name) &&
    name === name.trim() &&
    name !== '.' &&
    name !== '..' &&
    !RESERVED_BUCKETS.has(name)
  );
}

export type Address = { readonly bucket: string; readonly name: string };

/**
 * Bucket and name from an undecoded URL path; the name may be empty. Each segment is decoded once, after splitting,
 * so that an encoded slash is part of a name and a doubly encoded dot stays text.
 */
export function readAddress(rawPath: string): Address {
  const [bucket = '', ...rest] = rawPath.split('/');
  const decodedBucket = decodeSegment(bucket) ?? '';
  if (decodedBucket === '') throw invalidBucketName();
  const segments = rest.map((segment) => {
    const decoded = decodeSegment(segment);
    if (decoded === undefined) throw invalidKey(rest.join('/'));
    return decoded;
  });
  return { bucket: decodedBucket, name: segments.join('/') };
}

function decodeSegment(segment: string): string | undefined {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    // A malformed escape sequence.
    return undefined;
  }
}
