/** `--config database`. A file of that name is `./database`. */
export const IN_DATABASE = 'database';
