// A type the server does not know often belongs to an extension that this database does not have yet.
import { closest } from '../../lib/closest-word.ts';
import { isDatabaseError } from '../../postgres/pg-error.ts';

/** Types of the extensions that come with PostgreSQL, and of others that most servers offer. */
const TYPES_OF: Readonly<Record<string, readonly string[]>> = {
  citext: ['citext'],
  cube: ['cube'],
  h3: ['h3index'],
  hstore: ['hstore'],
  intarray: ['query_int'],
  isn: ['ean13', 'isbn', 'isbn13', 'ismn', 'ismn13', 'issn', 'issn13', 'upc'],
  ltree: ['ltree', 'lquery', 'ltxtquery'],
  postgis: ['geometry', 'geography', 'box2d', 'box3d'],
  postgis_raster: ['raster'],
  postgis_topology: ['topogeometry'],
  seg: ['seg'],
  semver: ['semver'],
  vector: ['vector', 'halfvec', 'sparsevec'],
};

const EXTENSION_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(TYPES_OF).flatMap(([extension, types]) => types.map((type) => [type, extension])),
);

/** `declared`: names of the file's types. The remedy for an error that says a type does not exist; null for every other error. */
export function unknownTypeHint(error: Error, declared: readonly string[] = []): string | null {
  if (!isDatabaseError(error, 'undefined_object')) return null;
  const name = /^type "(.+)" does not exist/.exec(error.message)?.[1];
  if (name === undefined) return null;
  const type = name
    .replace(/^.*\./, '')
    .replace(/(\[\])+$/, '')
    .toLowerCase();
  const near = closest(type, declared);
  if (near !== undefined) return `Did you mean ${near}?`;
  const extension = EXTENSION_OF.get(type);
  return extension === undefined
    ? 'If it is a type of an extension, name that under extensions:; one of your own is declared under types:.'
    : `It is a type of an extension: write extensions: [${extension}].`;
}
