// Types of the extensions that come with PostgreSQL, and of others that most servers offer.

const TYPES_OF: Readonly<Record<string, readonly string[]>> = {
  btree_gin: [],
  btree_gist: ['gbtreekey4', 'gbtreekey8', 'gbtreekey16', 'gbtreekey32', 'gbtreekey_var'],
  citext: ['citext'],
  cube: ['cube'],
  earthdistance: ['earth', 'cube'],
  fuzzystrmatch: [],
  h3: ['h3index'],
  hstore: ['hstore'],
  intarray: ['query_int'],
  isn: ['ean13', 'isbn', 'isbn13', 'ismn', 'ismn13', 'issn', 'issn13', 'upc'],
  ltree: ['ltree', 'lquery', 'ltxtquery'],
  pg_stat_statements: ['pg_stat_statements', 'pg_stat_statements_info'],
  pg_trgm: ['gtrgm'],
  pgcrypto: [],
  plpgsql: [],
  postgis: [
    'geometry',
    'geography',
    'box2d',
    'box3d',
    'box2df',
    'gidx',
    'spheroid',
    'geometry_dump',
    'valid_detail',
    'spatial_ref_sys',
  ],
  postgis_raster: ['raster'],
  postgis_topology: ['topogeometry'],
  seg: ['seg'],
  semver: ['semver'],
  unaccent: [],
  'uuid-ossp': [],
  vector: ['vector', 'halfvec', 'sparsevec'],
};

const EXTENSION_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(TYPES_OF).flatMap(([extension, types]) => types.map((type) => [type, extension])),
);

/** The extension that is known for a type. */
export function findExtension(type: string): string | undefined {
  return EXTENSION_OF.get(type);
}

/** Whether an extension has a type of this name, as far as its types are known here. */
export function canProvide(extension: string, type: string): boolean {
  return TYPES_OF[extension]?.includes(type) ?? true;
}
