import { createRequire } from 'node:module';

/** Resolves files of the platform package that npm installed. Throws if there is none. */
export const resolve = createRequire(import.meta.url).resolve;
