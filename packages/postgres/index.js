import { createRequire } from 'node:module';

/** Finds what npm installed for this package; throws where there is nothing. */
export const resolve = createRequire(import.meta.url).resolve;
