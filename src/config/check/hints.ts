// Hints by word: for keys that other products have, for lists written as maps, and examples of values.

/** Keys people look for, with their path, and where it is done instead. */
export const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  ['view', 'Views are declared under views.'],
  [
    'triggers',
    'A trigger belongs to its table: tables.<name>.triggers; those of the users to auth.triggers.',
  ],
  ['enums', 'Allowed values belong to the column: { name: state, type: text, enum: [open, done] }.'],
  ['types', 'Allowed values belong to the column as enum; other types are created in the database with SQL.'],
  ['seeds', 'What a database begins with stands under seed.'],
  ['fixtures', 'What a database begins with stands under seed.'],
  ['cron', 'svc has no scheduler: let cron or your platform call a function at /functions/v1/<name>.'],
  ['schedules', 'svc has no scheduler: let cron or your platform call a function at /functions/v1/<name>.'],
  ['jobs', 'svc has no scheduler: let cron or your platform call a function at /functions/v1/<name>.'],
  ['channels', 'Channels belong to realtime, and a table that tells of its changes says realtime: true.'],
  ['broadcast', 'Channels belong to realtime: they need no declaration.'],
  ['webhooks', 'A webhook is received by a function: declare it under functions.'],
  ['hooks', 'There are no hooks to configure; code goes under functions, SQL under rpc.'],
  ['env', 'Values of functions belong to functions.<name>.env; others come from the environment as ${NAME}.'],
  ['policies', 'Policies belong to their table or bucket: tables.<name>.rls.'],
  ['rls', 'Policies belong to their table or bucket: tables.<name>.rls.'],
  ['indexes', 'Indexes belong to their table: tables.<name>.indexes.'],
  ['models', 'Tables are declared under tables.'],
  ['schema', 'Tables are declared under tables; another schema is tables.<name>.schema.'],
  ['users', 'Users sign up through /auth/v1, or are made by its admin routes.'],
  ['cors', 'It belongs elsewhere: server.cors.'],
  [
    'server.s3_endpoint',
    'The S3-protocol endpoint was removed: delete this line, and use the storage API at /storage/v1.',
  ],
]);

/** Levels that people write and that are not there, by their path: where what is below them stands. */
export const HOMES: ReadonlyMap<string, (key: string) => string> = new Map([
  ['storage.buckets', (key: string) => `Buckets stand under storage itself: storage.${key}.`],
]);

/** Words of neighbouring products, and of SQL, for what is spelled otherwise here. */
export const SYNONYMS: ReadonlyMap<string, string> = new Map([
  ['columns', 'fields'],
  ['for', 'each'],
  ['for_each', 'each'],
  ['function', 'call'],
  ['execute_function', 'call'],
  ['condition', 'when'],
  ['event', 'events'],
  ['policies', 'rls'],
  ['nullable', 'required'],
  ['not_null', 'required'],
  ['pk', 'primary_key'],
  ['references', 'foreign_key'],
  ['buckets', 'storage'],
  ['postgres', 'database'],
  ['db', 'database'],
  ['secrets', 'env'],
  ['read', 'select'],
  ['write', 'update'],
  ['bucket_size', 'max_size'],
  ['file_size_limit', 'max_size'],
  ['allowed_mime_types', 'types'],
  ['nodejs', 'node'],
  ['set null', 'set_null'],
  ['set-null', 'set_null'],
  ['return_type', 'returns'],
  ['returnType', 'returns'],
  ['arguments', 'args'],
  ['params', 'args'],
  ['sql', 'body'],
  ['path', 'file'],
  ['entrypoint', 'file'],
]);

/** What a list looks like where people write a map of names. */
export const LIST_FORMS: ReadonlyMap<string, string> = new Map([
  [
    'fields',
    'Columns are a list: fields: [{ name: id, type: uuid }], or a line `- { name: …, type: … }` for each.',
  ],
  ['args', 'Arguments are a list: args: [{ name: a, type: integer }].'],
  ['rls', 'Policies are a list: rls: [{ operations: [select], using: … }].'],
  ['indexes', 'Indexes are a list: indexes: [{ columns: [owner_id] }].'],
  ['triggers', 'Triggers are a list: triggers: [{ timing: after, events: [insert], call: name }].'],
  ['enum', 'Values are a list: enum: [open, done].'],
]);

/** By the last key of a path: how the value may look. */
export const EXAMPLES: ReadonlyMap<string, string> = new Map([
  ['version', 'The file begins with `version: 1`.'],
  ['fields', 'Declare the columns: fields: [{ name: id, type: uuid, primary_key: true }].'],
  ['name', 'Each entry needs a name.'],
  ['type', 'For example type: text.'],
  ['to', 'For example to: [authenticated].'],
  ['timing', 'Write timing: before or timing: after.'],
  ['events', 'For example events: [insert, update].'],
  ['call', 'Name a function under rpc that returns trigger: call: name.'],
  ['partitions', 'For example partitions: { every: 1 month, ahead: 3 }, or a list of { name, values }.'],
  ['partition_by', 'For example partition_by: { range: [created_at] }.'],
  ['operations', 'For example operations: [select, insert, update, delete].'],
  ['references', 'For example references: lists.id.'],
  ['returns', 'For example returns: { type: integer }.'],
  ['runtime', 'Write runtime: node.'],
  ['file', 'For example file: functions/hello.js.'],
  ['body', 'The body is the text between the dollar quotes of CREATE FUNCTION.'],
  [
    'rls',
    'Write a list of policies, rls: [{ operations: [select], using: … }], [] to close the table, or false to leave it open on purpose.',
  ],
  ['columns', 'For example columns: [owner_id, created_at].'],
  ['client_id', 'The provider shows it where the application is registered.'],
  ['client_secret', 'The provider shows it where the application is registered; write ${NAME} and set NAME.'],
  ['redirect_url', 'It is {base_url}/auth/v1/callback/<provider>, registered at the provider.'],
  ['default_from_email', 'For example default_from_email: App <no-reply@example.com>.'],
  ['bucket', 'Name the bucket of the store.'],
]);
