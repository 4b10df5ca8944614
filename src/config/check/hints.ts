// Hints by word: keys of other products, lists written as maps, and examples of values.

/** Keys of other products, by path, with the place where svc declares the same. */
export const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  ['view', 'Views are declared under views.'],
  [
    'triggers',
    'Declare a trigger at its table: tables.<name>.triggers; triggers on users under auth.triggers.',
  ],
  ['enums', 'Declare allowed values at the column: { name: state, type: text, enum: [open, done] }.'],
  ['seeds', 'Declare initial users, rows and files under seed.'],
  ['fixtures', 'Declare initial users, rows and files under seed.'],
  ['cron', 'Declare it under schedules: { nightly: { cron: "0 3 * * *", function: name } }.'],
  ['jobs', 'Declare them under schedules: { nightly: { cron: "0 3 * * *", function: name } }.'],
  [
    'channels',
    'Configure channels under realtime. To publish the changes of a table, set realtime: true there.',
  ],
  ['broadcast', 'Channels need no declaration. Configure their policies under realtime.'],
  ['webhooks', 'A webhook is received by a function: declare it under functions.'],
  ['hooks', 'There are no hooks to configure; code goes under functions, SQL under rpc.'],
  ['env', 'Set variables of functions in functions.<name>.env; others come from the environment as ${NAME}.'],
  ['policies', 'Declare policies at their table or bucket: tables.<name>.rls.'],
  ['rls', 'Declare policies at their table or bucket: tables.<name>.rls.'],
  ['indexes', 'Declare indexes at their table: tables.<name>.indexes.'],
  ['models', 'Tables are declared under tables.'],
  ['schema', 'Tables are declared under tables; set another schema with tables.<name>.schema.'],
  ['users', 'Users sign up through /auth/v1, or an administrator creates them there.'],
  ['cors', 'Write it under server: server.cors.'],
  ['images', 'Images are files of a bucket: storage: { photos: { types: ["image/*"] } }.'],
  [
    'server.s3_endpoint',
    'The S3-protocol endpoint was removed: delete this line, and use the storage API at /storage/v1.',
  ],
]);

/** Levels that svc.yaml does not have, by path, with the correct place of the keys below them. */
export const HOMES: ReadonlyMap<string, (key: string) => string> = new Map([
  ['storage.buckets', (key: string) => `Buckets are declared under storage itself: storage.${key}.`],
]);

/** Words of similar products and of SQL, with the key or value that svc uses. */
export const SYNONYMS: ReadonlyMap<string, string> = new Map([
  ['columns', 'fields'],
  ['for', 'each'],
  ['for_each', 'each'],
  ['function', 'call'],
  ['execute_function', 'call'],
  ['condition', 'when'],
  ['event', 'events'],
  ['policies', 'rls'],
  ['not_null', 'required'],
  ['role', 'to'],
  ['roles', 'to'],
  ['pk', 'primary_key'],
  ['references', 'foreign_key'],
  ['values', 'enum'],
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

/** Keys with a different meaning or form here, by the kind of entry that contains them. */
export const KEY_ADVICE: ReadonlyMap<string, string> = new Map([
  [
    'fields.nullable',
    'A column accepts null unless it has required: true. Write that instead of nullable: false.',
  ],
  ['fields.values', 'Write the allowed values as enum: [open, done], next to type: text.'],
  [
    'tables.unique',
    'For several columns write constraints: [{ unique: [a, b] }]; for one column, unique: true at the field.',
  ],
  ['tables.primary_key', 'Write primary_key: true at each field of the key.'],
  ['tables.foreign_keys', 'Write foreign_key: { references: lists.id } at the field.'],
  ['tables.checks', 'Write constraints: [{ check: "ends_at > starts_at" }].'],
  ['storage.images', 'Write types: ["image/*"] to accept images only. Every bucket can resize its images.'],
  ['rpc.schedule', 'Declare it under schedules: { nightly: { cron: "0 3 * * *", rpc: name } }.'],
  ['rpc.cron', 'Declare it under schedules: { nightly: { cron: "0 3 * * *", rpc: name } }.'],
  [
    'rpc.events',
    'A trigger runs when rows change: tables.<name>.triggers: [{ timing: after, events: [insert], call: name }].',
  ],
  [
    'tables.events',
    'Write triggers: [{ timing: after, events: [insert], call: name }], or realtime: true to send changes to clients.',
  ],
  ['functions.schedule', 'Declare it under schedules: { nightly: { cron: "0 3 * * *", function: name } }.'],
  ['functions.cron', 'Declare it under schedules: { nightly: { cron: "0 3 * * *", function: name } }.'],
  [
    'functions.events',
    'A trigger runs when rows change: tables.<name>.triggers: [{ timing: after, events: [insert], call: name }]. ' +
      'It calls a function under rpc.',
  ],
]);

/** Form of a list entry, for entries that consist only of a name. */
export const ENTRY_FORMS: ReadonlyMap<string, (written: string) => string> = new Map<
  string,
  (written: string) => string
>([
  ['fields', (written) => `Write { name: ${written}, type: text }.`],
  ['indexes', (written) => `Write { columns: [${written}] }.`],
  ['args', (written) => `Write { name: ${written}, type: text }.`],
  ['rls', () => 'Write { operations: [select], using: "owner_id = auth.uid()" }.'],
  ['constraints', () => 'Write { unique: [a, b] } or { check: "a < b" }.'],
  ['triggers', () => 'Write { timing: after, events: [insert], call: name }.'],
]);

/** Form of a list, for lists that are written as a map of names. */
export const LIST_FORMS: ReadonlyMap<string, string> = new Map([
  [
    'fields',
    'Columns are a list: fields: [{ name: id, type: uuid }], or one line `- { name: …, type: … }` per column.',
  ],
  ['args', 'Arguments are a list: args: [{ name: a, type: integer }].'],
  ['rls', 'Policies are a list: rls: [{ operations: [select], using: … }].'],
  ['indexes', 'Indexes are a list: indexes: [{ columns: [owner_id] }].'],
  ['triggers', 'Triggers are a list: triggers: [{ timing: after, events: [insert], call: name }].'],
  ['enum', 'Values are a list: enum: [open, done].'],
  ['seed', 'Entries are a list: seed: [{ name: demo, users: [{ as: alice, email: alice@example.com }] }].'],
]);

/** Examples of values, by the last key of a path or by its last two keys. */
export const EXAMPLES: ReadonlyMap<string, string> = new Map([
  [
    'email.type',
    'Write type: resend | ses | smtp. For any other service write type: smtp and url: smtp://user:password@host:587.',
  ],
  ['version', 'Begin the file with `version: 1`.'],
  ['fields', 'Declare the columns: fields: [{ name: id, type: uuid, primary_key: true }].'],
  ['name', 'Give each entry a name.'],
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
  ['language', 'Write language: sql or plpgsql. Code in JavaScript is declared under functions.'],
  ['foreign_key', 'For example foreign_key: { references: auth.users.id }.'],
  ['cors', 'For example cors: { origins: ["https://app.example.com"] }; "*" allows every origin.'],
  ['origins', 'For example origins: ["https://app.example.com"].'],
  ['grants', 'For example grants: { anon: [select], authenticated: [select, insert] }.'],
  ['as', 'Choose a name with which rows refer to the user: as: alice.'],
  ['types', 'For example types: [image/png, "image/*"].'],
  ['unique', 'For example unique: true, or constraints: [{ unique: [a, b] }] for several columns.'],
  ['file', 'For example file: functions/hello.js.'],
  ['body', 'The body is the text between the dollar quotes of CREATE FUNCTION.'],
  [
    'rls',
    'Write a list of policies, rls: [{ operations: [select], using: … }], [] to close the table, ' +
      'or false to leave it open on purpose.',
  ],
  ['columns', 'For example columns: [owner_id, created_at].'],
  ['client_id', 'Copy it from the registration of the application at the provider.'],
  [
    'client_secret',
    'Copy it from the registration of the application at the provider; write ${NAME} and set NAME.',
  ],
  ['redirect_url', 'Write {base_url}/auth/v1/callback/<provider>, and register it at the provider.'],
  ['default_from_email', 'For example default_from_email: App <no-reply@example.com>.'],
  ['bucket', 'Name a bucket of the object store.'],
]);
