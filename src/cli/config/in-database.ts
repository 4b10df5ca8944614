/**
 * Value of `--config` that selects the configuration in the database. A file with this name is
 * `./database`.
 */
export const IN_DATABASE = 'database';
