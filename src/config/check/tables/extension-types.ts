// Types of the extensions in the PostgreSQL distribution, and of other widely available extensions.

const EXTENSION_TYPES: Readonly<Record<string, readonly string[]>> = {
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

const TYPE_EXTENSIONS: ReadonlyMap<string, string> = new Map(
  Object.entries(EXTENSION_TYPES).flatMap(([extension, types]) => types.map((type) => [type, extension])),
);

/** Returns the known extension that provides a type. */
export function findExtension(type: string): string | undefined {
  return TYPE_EXTENSIONS.get(type);
}

/** Returns true for an unknown extension, because it may provide any type. */
export function canProvide(extension: string, type: string): boolean {
  return EXTENSION_TYPES[extension]?.includes(type) ?? true;
}
