// Examples of docs/configuration.md, one per section. A test loads them together as one file with every key.

/** Keys of a first app. Short lines, so that the page shows them on one screen without scrolling. */
export const FIRST_APP = `version: 1
tables:
  todos:             # served at /rest/v1/todos
    fields:
      - { name: id, type: uuid, primary_key: true, default: uuid_v7() }
      - { name: title, type: text, required: true }
      - { name: done, type: boolean, default: false }
      - { name: state, type: text, default: open, enum: [open, done] }
      - name: owner_id
        default: { sql: auth.uid() }
        foreign_key: { references: auth.users.id, on_delete: cascade }
    rls:             # users read and change only their own rows
      - operations: [all]
        to: authenticated
        using: owner_id = auth.uid()
        with_check: owner_id = auth.uid()
    realtime: true   # subscribers receive changes of rows`;

export const EXAMPLES: Readonly<Record<string, string>> = {
  version: `version: 1`,
  include: `
include: [tables/*.yaml, webhooks.yaml]`,
  sql: `
sql: [database/*.sql]`,
  project: `
project:
  name: Shop
  description: Everything the shop sells
  cloud: { project_id: prj_123 }`,
  database: `
database:
  pool: { max: 20, min: 5, owner: 8, idle_timeout: 300s, queue: 1000 }
  failover_wait: 5s
  replicas: { reads: fresh, max_staleness: 1s, wait: 20ms, without_primary: serve }`,
  server: `
server:
  port: "\${PORT:-8080}"
  processes: 1
  max_body_size: 1MB
  max_response_size: 100MB
  response_budget: 256MB
  max_in_flight: 1000
  max_limit: 100
  cors:
    origins: [https://shop.example.com, "http://localhost:5173"]
  listen_early: true
  trusted_proxies: [10.0.0.0/8, loopback]
  timeouts:
    request: 30s
    db_query: 10s
    upload: 5m
    header: 15s
    body_idle: 10s
    response_idle: 10s
    drain_delay: 5s
    shutdown: 30s`,
  providers: `
providers:
  email:
    type: resend               # or ses (region), or smtp (url)
    api_key: \${RESEND_API_KEY}
    default_from_email: Shop <no-reply@shop.example.com>
  storage:
    type: s3                   # or local: { path: ./objects }
    s3:
      bucket: shop-objects
      region: eu-central-1
      access_key_id: \${S3_KEY_ID}
      secret_access_key: \${S3_SECRET}
      endpoint: https://s3.example.com`,
  auth: `
auth:
  jwt_expiry: 15m
  refresh_token_expiry: 7d
  allow_signup: true
  allow_anonymous: false
  redirect_urls: [https://shop.example.com, "shop://signed-in"]
  sessions: { revocation: immediate }
  email:
    verify_email: true
    confirm_at_signup: true
    confirm_expiry: 7d
    notices: [password_changed, email_changed]
    templates:
      confirm:
        subject: Welcome to the shop
        body: <p><a href="{{ .ConfirmationURL }}">Confirm your address</a></p>
      recovery: { body_file: mails/recovery.html }
  oauth:
    google:
      client_id: \${GOOGLE_ID}
      client_secret: \${GOOGLE_SECRET}
      redirect_url: https://api.shop.example.com/auth/v1/callback/google
      scopes: [openid]
    keycloak:
      client_id: shop
      client_secret: \${KEYCLOAK_SECRET}
      redirect_url: https://api.shop.example.com/auth/v1/callback/keycloak
      url: https://login.example.com/realms/shop
    staff:                     # any other OIDC provider, by its issuer
      client_id: shop
      client_secret: \${STAFF_SECRET}
      redirect_url: https://api.shop.example.com/auth/v1/callback/staff
      issuer: https://staff.example.com
      email_optional: true
  hooks:
    custom_access_token: { rpc: add_claims, timeout: 2s }   # or function: <code function>
  triggers:
    - name: on_auth_user_created
      timing: after
      events: [insert]
      when: not new.is_anonymous
      call: public.greet_user      # a function that the database has
      args: [hello]
    - { timing: before, events: [update], of: [email], call: public.keep_email, enabled: false }`,
  types: `
types:
  plan:
    enum: [free, pro, business]      # sorts in this order
    renamed_values: { team: business }
    comment: What a customer pays for
  size:
    schema: shop
    renamed_from: format
    enum: [S, M, L]
  price:
    domain: numeric(10,2)
    check: value >= 0                # or a list
    not_null: true
    default: { sql: 1 - 1 }
  code: { domain: text, collate: C }
  span:
    composite: { low: price, high: price }`,
  sequences: `
sequences:
  ticket_numbers:
    type: integer
    start: 1000
    increment: 10
    min: 1000
    max: 9999990
    cache: 5
    cycle: true
    usage: [authenticated]
    comment: On the door
  order_numbers: { schema: shop, renamed_from: numbers }`,
  statements: `
statements:
  aggregate product(numeric):
    create: create aggregate product(numeric) (sfunc = numeric_mul, stype = numeric)
    execute: [authenticated]
    comment: All of them multiplied
  statistics sales_by_day:
    create: create statistics sales_by_day (ndistinct) on shop, day from sales
    alter: [alter statistics sales_by_day set statistics 500]`,
  extensions: `
extensions:
  - pg_trgm
  - { name: citext, schema: public }
  - { name: earthdistance, version: "1.2", cascade: true }`,
  tables: `
tables:
  products:
    fields:
      - { name: id, type: uuid, primary_key: true, default: uuid_v7() }
      - { name: sku, type: text, required: true, unique: true, pattern: "^[A-Z]{2}-[0-9]+$" }
      - { name: price, type: "numeric(10,2)", required: true, min: 0, max: 99999.99 }
      - { name: state, type: text, required: true, default: draft, enum: [draft, listed, sold] }
      - { name: tags, type: "text[]", default: [] }
      - { name: details, type: jsonb, default: { color: none } }
      - name: seller_id
        type: uuid
        default: { sql: auth.uid() }
        foreign_key: { references: auth.users.id, on_delete: set_null }
      - { name: photo, type: text, ref: storage.photos, on_delete: cascade }
      - { name: headline, type: text, renamed_from: title, check: length(headline) > 2 }
      - { name: weight, type: integer, required: true, backfill: "0", using: weight::integer }
      - { name: created_at, type: timestamptz, required: true, default: now() }
      - { name: number, type: bigint, identity: by_default }
      - { name: label, type: text, collate: C, comment: As printed on the parcel }
      - { name: search, type: tsvector, generated: "to_tsvector('english', coalesce(headline, ''))" }
      - { name: gross, type: numeric, generated: { sql: price * 1.19, virtual: true } }
      - { name: updated_at, type: timestamptz, default: now(), on_update: now() }
      - { name: version, type: integer, default: 1, on_update: { sql: old.version + 1 } }
    indexes:
      - columns: [seller_id]
      - columns: [sku, state]
        unique: true
        where: state <> 'sold'
        name: products_open_sku
      - columns: [{ expression: lower(headline) }]
        unique: true
        nulls_not_distinct: true
      - columns:
          - { column: seller_id, order: desc, nulls: last }
          - { column: sku, opclass: text_pattern_ops, collate: C }
        include: [state]
        with: { fillfactor: 80 }
      - columns: [{ column: search, opclass: tsvector_ops, opclass_options: { siglen: 64 } }]
        using: gist
    rls:
      - operations: [select]
        using: state = 'listed' or seller_id = auth.uid()
      - operations: [insert, update, delete]
        to: authenticated
        using: seller_id = auth.uid()
        with_check: seller_id = auth.uid()
      - name: nothing_while_closed
        type: restrictive
        operations: [insert]
        check: auth.is_authenticated()
    triggers:
      - name: products_changed
        timing: after
        events: [insert, update]
        of: [price, state]
        when: new.state <> 'draft'
        call: note_change
        args: [products]
      - timing: after
        events: [update]
        each: statement
        old_table: was
        new_table: is_now
        call: note_change
      - { timing: after, events: delete, constraint: { deferrable: deferred }, call: note_change, enabled: always }
  ledger:
    schema: accounting
    renamed_from: bookings
    protect: true
    rls: []                    # closed: only the secret key has access
    fields:
      - name: product_id
        primary_key: true
        foreign_key: { references: products.id, on_update: cascade, deferrable: immediate }
      - { name: line, type: integer, primary_key: true }
  opening_hours:
    comment: When the shop answers the telephone
    unlogged: true             # a crash empties it
    with: { fillfactor: 70, autovacuum_enabled: false }
    rls: false                 # open on purpose
    fields:
      - { name: day, type: date, primary_key: true }
  profiles:
    on_new_user:
      when: not is_anonymous
      set: { id: id, name: "coalesce(raw_user_meta_data ->> 'name', 'New')" }
    rls:
      - { operations: [select, update], to: authenticated, using: id = auth.uid() }
    grants:
      anon: []
      authenticated: [select, { update: [name] }]
    fields:
      - { name: id, primary_key: true, foreign_key: { references: auth.users.id, on_delete: cascade } }
      - { name: name, type: text, required: true }
  parcels:
    rls: []
    realtime: { events: [insert, update, delete], old: full, deletes: none }
    fields:
      - { name: id, type: bigint, primary_key: true, identity: always }
      - { name: product_id, type: uuid }
      - { name: line, type: integer }
      - { name: shelf, type: text }
    constraints:
      - { unique: [product_id, shelf], nulls_not_distinct: true, deferrable: deferred }
      - foreign_key: [product_id, line]
        references: accounting.ledger(product_id, line)
        on_delete: set_null
        on_update: cascade
        on_delete_columns: [line]
        match: simple
      - exclude:
          - { expression: "int4range(line, line + 1)", with: "&&" }
          - { column: shelf, with: "=", opclass: text_ops, collate: C }
        using: spgist
        where: line > 0
      - { check: shelf is null or product_id is not null, name: on_a_shelf, not_valid: true }
  visits:
    rls: []
    fields: [{ name: at, type: timestamptz, primary_key: true }, { name: page, type: text, primary_key: true }]
    partition_by: { range: [at] }
    partitions: { every: 1 month, ahead: 3, keep: 24 months, from: "2026-01-01" }
  readings:
    rls: []
    fields: [{ name: place, type: text, primary_key: true }, { name: number, type: bigint, primary_key: true }]
    partition_by: { list: [place] }
    partitions:
      - { name: readings_roof, values: "in ('roof')" }
      - name: readings_rest
        values: default
        partition_by: { hash: [number] }
        partitions: [{ name: readings_rest_0, values: "with (modulus 1, remainder 0)" }]
  measures:
    rls: []
    fields: [{ name: number, type: bigint, primary_key: true }]
    partition_by: { range: [number] }
    partitions:
      - name: measures_low
        values: from (minvalue) to (1000)
        partition_by: { range: [number] }
        partitions: [{ name: measures_lowest, values: from (minvalue) to (100) }]
      - name: measures_high
        values: default
        partition_by: { list: [number] }
        partitions: [{ name: measures_1000, values: in (1000) }]
  spread:
    rls: []
    fields: [{ name: id, type: bigint, primary_key: true }]
    partition_by: { hash: [id] }
    partitions: [{ name: spread_0, values: "with (modulus 1, remainder 0)" }]`,
  views: `
views:
  offers:
    query: select id, headline, price from products where state = 'listed'
    comment: What can be bought
    check_option: local
    grants: { authenticated: [select, update] }
  sales_by_day:
    schema: accounting
    query: { file: sql/sales_by_day.sql }
    security: definer          # past row-level security, so only service_role reads it
    barrier: true
    expose: false
    triggers:
      - { timing: instead_of, events: [insert, update], call: note_change, args: [sales] }
      - timing: after
        events: update
        of: n
        each: statement
        when: session_user <> 'importer'
        call: note_change
        name: noted
    renamed_from: daily_sales
  best_sellers:
    query: select product_id, count(*) as sold from accounting.ledger group by product_id
    materialized: true         # its rows are as of the last svc refresh
    indexes:
      - { columns: [product_id], unique: true }
      - { columns: [{ column: sold, order: desc }], where: sold > 0 }
    expose: true
    grants: { authenticated: [select] }`,
  storage: `
storage:
  photos:
    public: true
    max_size: 5MB
    types: [image/*]
    rls:
      - operations: [insert, update, delete]
        to: [authenticated]
        using: owner_id = auth.uid()::text
        with_check: owner_id = auth.uid()::text`,
  realtime: `
realtime:
  enabled: true
  private_only: true
  source: wal
  retention: 7d
  rls:
    - name: room members
      operations: [select, insert]
      to: [authenticated]
      check: realtime.topic() = 'room:' || (select auth.uid()::text)
    - operations: [insert]
      type: restrictive
      with_check: extension = 'broadcast' or not auth.is_anonymous()
    - { operations: [select], using: topic = 'news' }
  limits:
    connections: 5000
    channels: 50
    joins: 200
    messages: 30
    presence: 20
    payload: 1MB
    change: 1MB`,
  rpc: `
rpc:
  search_products:
    description: Products whose headline contains the words
    auth_required: true
    language: sql
    volatility: stable
    security: invoker
    args:
      - { name: words, type: text, required: true, renamed_from: query }
      - { name: most, type: integer, default: 10 }
    returns: { type: setof products }
    body: select * from products where headline ilike '%' || words || '%' limit most
    renamed_from: find_products
  sales_of:
    language: sql
    volatility: stable
    strict: true               # null without a shop
    parallel: safe
    cost: 500
    rows: 30
    args: [{ name: shop, type: bigint, required: true, mode: in }]
    returns: { table: [{ name: day, type: date }, { name: total, type: numeric }] }
    body: select day, sum(amount) from sales where shop_id = shop group by day
  sales_of_all:
    name: sales_of             # called without a shop, this one is meant
    language: sql
    atomic: true
    returns: { type: numeric }
    body: return (select sum(amount) from sales)
  clean_up:
    kind: procedure            # in SQL: call clean_up()
    body: begin delete from products where headline = ''; commit; end
  note_change:
    returns: { type: trigger }
    security: definer
    settings: { search_path: "" }
    body_file: sql/note_change.sql
  remove_drafts:
    expose: false
    execute: [service_role]    # for a schedule
    args: [{ name: older_than, type: interval, required: true }]
    returns: { type: void }
    body: begin delete from products where created_at < now() - older_than; end
  may_sell:
    schema: private
    expose: false              # for policies, not for callers
    execute: [authenticated]
    language: sql
    returns: { type: boolean }
    body: select not auth.is_anonymous()
  add_claims:                  # called by auth.hooks
    args: [{ name: event, type: jsonb }]
    returns: { type: jsonb }
    expose: false
    body: begin return jsonb_set(event, '{claims,plan}', '"free"'); end`,
  functions: `
functions:
  pay:
    runtime: node
    file: functions/pay.js
    auth_required: true
    timeout: 10s
    env:
      CURRENCY: EUR
      STRIPE_KEY: \${SVC_ENV_STRIPE_KEY}
  digest:
    runtime: node
    file: functions/digest.js
    http: false                # only called by a schedule`,
  expose: `expose:
  relations:
    - monthly_totals
    - { name: reporting.invoices, columns: [id, total] }
  functions:
    - nearby_shops
    - { name: close_month, auth_required: true }`,
  functions_bundle: `functions_bundle: s3://shop-deploys/functions.tgz#${'0123456789abcdef'.repeat(4)}`,
  schedules: `
schedules:
  weekday_digest:
    cron: "0 7 * * 1-5"
    timezone: Europe/Berlin
    function: digest
    payload: { kind: weekday }
    retries: 3
    overlap: wait
    missed: all
  remove_drafts:
    every: 1h
    rpc: remove_drafts         # runs as service_role
    payload: { older_than: 7 days }
    enabled: false`,
  seed: `
seed:
  - name: demo
    users:
      - as: ann
        email: ann@example.com
        password: ann-password
        metadata: { name: Ann }
        app_metadata: { team: red }
      - as: ben
        id: 6f1c1f0e-7a52-4b7e-9d1a-000000000001
        email: ben@example.com
        password: ben-password
        confirmed: false
    rows:
      products:
        - { id: 0193f2f0-0000-7000-8000-000000000001, sku: CH-1, price: 49.90, seller_id: { user: ann } }
      opening_hours: { file: seed/hours.csv }
    objects: { photos: seed/photos }
    on_conflict: update
  - name: first-admin
    modes: [production]
    users:
      - { as: admin, email: admin@example.com, password: "\${ADMIN_PASSWORD}" }
    sql: seed/admin.sql`,
  migrations: `
migrations:
  drop: retire
  prune_after: 7d
  lock_timeout: 300ms
  lock_budget: 60s
  boot_budget: 60s
  max_write_block: 100ms
  steps:
    - name: split-names
      run: steps/split-names.sql
      after: expand
      on_empty: skip
      timeout: 5m
      undo: { file: steps/join-names.sql }
    - name: shout
      sql: update todos set title = upper(title) where id between $1 and $2
      after: contract
      batch: { table: todos, size: 5000 }`,
};
