// Ten more databases: schemas of frameworks, of large hosted projects, and with unusual names.
import type { Profile } from './profiles.ts';

/** Columns with three indexes each, as in web analytics. */
const VISITED = ['url', 'referrer', 'browser', 'os', 'device', 'country', 'region', 'event'] as const;
const VISIT_INDEXES = VISITED.map(
  (column) => `
      create index "visit_${column}_idx" on visit (website_id, created_at, ${column});
      create index on visit (${column} desc nulls last) where ${column} is not null;
      create index on visit (website_id, left(${column}, 8)) include (session_id);`,
).join('');

/** Audited tables of one profile. */
const AUDITED = ['account', 'entry', 'note'] as const;
const AUDIT_TRIGGERS = AUDITED.map(
  (table) => `
      create trigger audit_${table} after insert or update or delete on ledger.${table}
        for each row execute function audit.record('${table}', 'it''s');`,
).join('');

export const MORE_PROFILES: readonly Profile[] = [
  {
    name: 'a wholesaler: fixed-width keys, floats, a manager of the same table, views that join and count',
    left: [],
    sql: `
      create table "Categories" ("CategoryID" smallint not null, "CategoryName" varchar(15) not null,
        "Picture" bytea, "Notes" text,
        constraint "PK_Categories" primary key ("CategoryID"));
      create table "Customers" ("CustomerID" char(5) not null primary key,
        "CompanyName" varchar(40) not null, "Region" varchar(15), "Code" bpchar);
      create table "Employees" ("EmployeeID" smallint primary key, "LastName" varchar(20) not null,
        "BirthDate" date, "HiredAt" time(0) default '09:00',
        "ReportsTo" smallint, constraint "FK_Boss" foreign key ("ReportsTo") references "Employees" ("EmployeeID"));
      create table "Products" ("ProductID" smallint primary key, "Name" varchar(40) not null,
        "CategoryID" smallint references "Categories" on delete set default,
        "UnitPrice" real default 0, "Weight" double precision default 1e-3,
        "Discontinued" integer not null default 0, "Since" date default '1996-07-04');
      alter table "Products" alter "CategoryID" set default 1;
      create table "Orders" ("OrderID" smallint primary key,
        "CustomerID" char(5) references "Customers" on update cascade, "EmployeeID" smallint,
        "Freight" real, "Shipped" boolean not null default false,
        foreign key ("EmployeeID") references "Employees" on delete set null);
      create table "Order Details" ("OrderID" smallint references "Orders",
        "ProductID" smallint references "Products", "UnitPrice" real not null,
        "Quantity" smallint not null default '1'::smallint,
        "Discount" real not null default 0 check ("Discount" >= 0 and "Discount" <= 1),
        primary key ("OrderID", "ProductID"), check ("Quantity" > 0), check ("UnitPrice" >= 0));
      create index "Order Details of product" on "Order Details" ("ProductID");
      create view "Order Subtotals"
        as select "OrderID", sum("UnitPrice" * "Quantity" * (1 - "Discount")) as "Subtotal"
        from "Order Details" group by 1;
      create view "Sales by Category" as with wanted as (select * from "Products" where "Discontinued" = 0)
        select c."CategoryName", count(*) filter (where d."Quantity" > 10) as "Large",
          rank() over (order by c."CategoryName") as "Place"
        from "Order Details" d join wanted p using ("ProductID")
          left join "Categories" c on c."CategoryID" = p."CategoryID" group by 1;
      create view "Current Products" with (check_option = cascaded) as select "ProductID", "Name"
        from "Products" where "Discontinued" = 0;
      insert into "Customers" values ('ALFKI', 'Alfred', null, 'x'); insert into "Employees" values (1, 'Davolio');
      insert into "Orders" values (1, 'ALFKI', 1, 2.5);`,
  },
  {
    name: 'web analytics: two dozen indexes on one table',
    left: [],
    sql: `
      create table website (website_id uuid not null, name varchar(100) not null, domain varchar(500),
        reset_at timestamptz(6), created_at timestamptz(6) default current_timestamp,
        deleted_at timestamptz(6), constraint website_pkey primary key (website_id));
      create table visit (visit_id uuid primary key, website_id uuid not null, session_id uuid not null,
        created_at timestamptz(6) default current_timestamp,
        ${VISITED.map((column) => `${column} varchar(${column === 'url' ? 500 : 60})`).join(', ')},
        revenue decimal(19,4),
        hour smallint generated always as (extract(hour from created_at at time zone 'UTC')::smallint) stored);
      ${VISIT_INDEXES}
      create unique index one_visit on visit (session_id, created_at) where event is null;
      create index on visit using brin (created_at) with (pages_per_range = 32);
      create index on website (date_trunc('hour', created_at at time zone 'utc'));
      insert into website (website_id, name) values (gen_random_uuid(), 'Mine');`,
  },
  {
    name: 'a Rails schema: versions as keys, polymorphic references, citext in public, names cut at 63 bytes',
    prepare:
      'create extension if not exists citext schema public; create extension if not exists pg_trgm schema extensions',
    left: [],
    sql: `
      create table schema_migrations (version character varying primary key);
      create table ar_internal_metadata (key character varying primary key, value character varying,
        created_at timestamp(6) not null, updated_at timestamp(6) not null);
      create table users (id bigserial primary key, email public.citext not null,
        name character varying default '' not null, settings jsonb default '{}' not null,
        roles character varying[] default '{}'::character varying[], last_ip inet, stay daterange,
        created_at timestamp(6) without time zone not null,
        deleted_at timestamp(6),
        searchable tsvector generated always as (to_tsvector('simple', coalesce(name, ''))) stored,
        constraint chk_rails_1a2b check (char_length(name) <= 255));
      create unique index index_users_on_email on users (email) where deleted_at is null;
      create index index_users_on_searchable on users using gin (searchable);
      create index index_users_on_name_trigram on users using gin (name extensions.gin_trgm_ops);
      create index index_users_on_stay on users using gist (stay);
      create table comments (id bigserial primary key, author_id bigint not null,
        commentable_type varchar not null, commentable_id bigint not null, body text,
        depth integer default 0 not null,
        created_at timestamp(6) default (now() at time zone 'utc') not null,
        constraint fk_rails_03de2dc08c foreign key (author_id) references users (id) on delete cascade);
      create index index_comments_on_commentable on comments (commentable_type, commentable_id);
      create index index_comments_on_the_author_and_when_it_was_made_and_what_for_xyz
        on comments (author_id, created_at desc);
      insert into schema_migrations values ('20260101000000');
      insert into users (email, created_at) values ('Ann@example.com', now());`,
  },
  {
    name: 'a Django schema: deferred keys, indexes for LIKE, operators in checks',
    left: [/auth_user.id: its sequence/],
    sql: `
      create table django_migrations (id bigint generated by default as identity primary key,
        app varchar(255) not null, applied timestamptz not null);
      create table django_session (session_key varchar(40) primary key, session_data text not null,
        expire_date timestamptz not null);
      create index django_session_key_like on django_session (session_key varchar_pattern_ops);
      create table auth_user (id integer generated by default as identity (start with 100 increment by 5)
        primary key, username varchar(150) not null unique, is_active boolean not null);
      create index auth_user_username_like on auth_user (username varchar_pattern_ops);
      create table auth_group (id integer generated by default as identity primary key,
        name varchar(150) not null unique);
      create table auth_user_groups (id bigint generated by default as identity primary key,
        user_id integer not null, group_id integer not null,
        constraint auth_user_groups_uniq unique (user_id, group_id));
      alter table auth_user_groups add constraint to_user foreign key (user_id)
        references auth_user (id) deferrable initially deferred;
      alter table auth_user_groups add constraint to_group foreign key (group_id)
        references auth_group (id) deferrable initially deferred;
      create table shop_item (id bigint generated by default as identity primary key,
        stock integer not null check (stock >= 0), rank smallint check (rank >= 0),
        ratio double precision not null,
        took interval not null, price numeric(8,2) not null, opens time, seen_from inet,
        meta jsonb not null, slug varchar(50) not null,
        constraint cheap_or_rare check (price < 100 or stock < 10),
        constraint unique_slug unique (slug) deferrable initially deferred);
      create index shop_item_slug_like on shop_item (slug varchar_pattern_ops);
      create index shop_item_meta on shop_item using gin (meta);
      insert into auth_user (username, is_active) values ('ann', true);
      insert into auth_group (name) values ('staff');
      insert into auth_user_groups (user_id, group_id) values (100, 1);`,
  },
  {
    name: 'a wallet: a balance that only a function changes, helpers in a private schema, policies that call them',
    schemas: ['private'],
    grants: 'grant all on all sequences in schema public to anon, authenticated, service_role',
    left: [],
    sql: `
      create schema private;
      create table private.staff (user_id uuid primary key, level int not null default 1);
      create type currency as enum ('EUR', 'USD');
      create table wallets (id uuid primary key default gen_random_uuid(),
        owner uuid not null default auth.uid() references auth.users on delete cascade,
        balance bigint not null default 0 check (balance >= 0),
        currency currency not null default 'EUR', label text, frozen boolean not null default false,
        unique (owner, currency));
      create table transfers (id bigint generated always as identity primary key,
        from_wallet uuid references wallets, to_wallet uuid references wallets on delete set null,
        amount bigint not null,
        at timestamptz not null default timezone('utc', now()),
        constraint not_to_itself check (from_wallet is distinct from to_wallet),
        check (amount > 0 and amount < 1000000));
      create function private.is_staff(at_least int default 1) returns boolean language sql stable
        security definer set search_path = ''
        as 'select exists (select 1 from private.staff s
          where s.user_id = (select auth.uid()) and s.level >= at_least)';
      create function private.owns(wallet uuid) returns boolean language plpgsql stable security definer
        set search_path = private, public
        as $$ begin return exists (select from wallets w where w.id = wallet and w.owner = auth.uid()); end $$;
      create function transfer(from_wallet uuid, to_wallet uuid, amount bigint)
        returns table (id bigint, "left" bigint) language plpgsql security definer
        set search_path = public, pg_temp as $$
        begin
          update wallets w set balance = w.balance - transfer.amount
            where w.id = transfer.from_wallet and w.owner = auth.uid();
          if not found then raise exception 'not yours' using errcode = '42501', hint = 'pick one of yours'; end if;
          update wallets w set balance = w.balance + transfer.amount where w.id = transfer.to_wallet;
          return query insert into transfers as t (from_wallet, to_wallet, amount)
            values (transfer.from_wallet, transfer.to_wallet, transfer.amount) returning t.id, 0::bigint;
        end $$;
      revoke execute on function transfer(uuid, uuid, bigint) from public, anon;
      grant execute on function transfer(uuid, uuid, bigint) to authenticated;
      grant usage on schema private to authenticated;
      alter table wallets enable row level security; alter table transfers enable row level security;
      alter table private.staff enable row level security;
      create policy "own or staff" on wallets for select to authenticated
        using (owner = (select auth.uid()) or (select private.is_staff()));
      create policy "make one" on wallets for insert to authenticated with check (owner = auth.uid() and balance = 0);
      create policy "rename it" on wallets for update to authenticated using (owner = auth.uid())
        with check (owner = auth.uid());
      create policy "not when frozen" on wallets as restrictive for update to authenticated, anon
        using (not frozen or private.is_staff(2));
      create policy "of own wallets" on transfers for select to authenticated
        using (private.owns(from_wallet) or private.owns(to_wallet));
      grant select on wallets, transfers to authenticated;
      grant insert (label, currency) on wallets to authenticated;
      grant update (label) on wallets to authenticated;
      grant all on wallets, transfers to service_role;
      insert into private.staff values (gen_random_uuid());`,
  },
  {
    name: 'a chat: profiles created at sign-up, members by a function, a view with the rights of the caller',
    left: [/policy s4|policy messages \*true/],
    sql: `
      create table profiles (id uuid primary key references auth.users on delete cascade,
        username text unique, joined timestamptz not null default now(), updated_at timestamptz default now());
      create table rooms (id uuid primary key default gen_random_uuid(),
        slug text not null unique check (slug ~ '^[a-z0-9-]{3,40}$'), topic text default '',
        is_open boolean default true);
      create table room_members (room uuid not null references rooms on delete cascade,
        member uuid not null references profiles on delete cascade, since timestamptz default now(),
        role text not null default 'member' check (role = any (array['owner', 'member', 'guest'])),
        primary key (room, member));
      create table messages (id bigint generated by default as identity primary key,
        room uuid not null references rooms on delete cascade,
        author uuid not null default auth.uid() references profiles,
        body text not null check (length(trim(body)) > 0),
        reply_to bigint references messages on delete set null, edited boolean not null default false,
        sent timestamptz not null default now());
      create index messages_of_room on messages (room, sent desc, id desc);
      create function is_member(room uuid, who uuid default auth.uid()) returns boolean language sql stable
        security definer set search_path = ''
        as 'select exists (select from public.room_members m where m.room = $1 and m.member = $2)';
      create function handle_new_user() returns trigger language plpgsql security definer set search_path = '' as $$
        begin insert into public.profiles (id, username)
          values (new.id, new.raw_user_meta_data ->> 'username') on conflict (id) do nothing; return new; end $$;
      create function bump() returns trigger language plpgsql as $$ begin new.updated_at = now(); return new; end; $$;
      create trigger bump before update on profiles for each row execute procedure bump();
      create trigger lower_name before insert or update of username on profiles
        for each row when (new.username <> lower(new.username)) execute function bump();
      alter table profiles enable row level security; alter table rooms enable row level security;
      alter table room_members enable row level security; alter table messages enable row level security;
      create policy p1 on profiles for select using (true);
      create policy p2 on profiles for update using (auth.uid() = id);
      create policy r1 on rooms for select using (is_open or is_member(id));
      create policy r2 on rooms for insert to authenticated with check (auth.role() = 'authenticated'::text);
      create policy m1 on room_members for select using (is_member(room));
      create policy m2 on room_members for delete to authenticated using (member = auth.uid() and role <> 'owner');
      create policy s1 on messages for select using (is_member(room));
      create policy s2 on messages for insert to authenticated
        with check (author = auth.uid()
        and exists (select 1 from room_members m where m.room = messages.room and m.member = auth.uid()));
      create policy s3 on messages for update to authenticated
        using (author = auth.uid() and sent > now() - interval '15 minutes');
      create policy s4 on messages to service_role using (true) with check (true);
      create view last_messages with (security_invoker = on)
        as select distinct on (room) room, id, body, sent from messages order by room, sent desc;
      create function rooms_with_counts(most integer default 10)
        returns table (id uuid, slug text, messages bigint) language sql stable as
        $$ select r.id, r.slug, count(m.id) from rooms r left join messages m on m.room = r.id
          group by r.id, r.slug order by 3 desc limit most $$;
      insert into rooms (slug) values ('lobby');`,
  },
  {
    name: 'bookings: domains, an exclusion constraint, a materialized view with a unique index',
    prepare: 'create extension if not exists btree_gist schema extensions',
    left: [/some_time|isempty/, /prices_key|prices .*\(room, season\)/],
    sql: `
      create domain email as text check (value ~ '^[^@]+@[^@]+$') check (length(value) < 255);
      create domain cents as bigint not null default 0 check (value >= 0);
      create domain code as varchar(8) collate "C";
      create type state as enum ('asked', 'paid');
      alter type state add value 'cancelled' before 'paid'; alter type state add value 'it''s over';
      create type period as (low date, high date);
      create table rooms (id smallint generated always as identity primary key,
        name text not null collate "C", code code unique, floor int check (floor between -2 and 40));
      create table bookings (id uuid primary key default gen_random_uuid(),
        room smallint not null default 1 references rooms on delete set default on update cascade,
        guest email not null, during tstzrange not null,
        wished period, state state not null default 'asked', price cents,
        days int generated always as ((upper(during) at time zone 'utc')::date - (lower(during)
          at time zone 'utc')::date) stored,
        notes text[] not null default array[]::text[], tags state[] default '{asked}',
        constraint no_overlap exclude using gist (room with =, during with &&) where (state <> 'paid'),
        constraint paid_has_price check (state <> 'paid' or price > 0),
        constraint some_time check (not isempty(during)) no inherit);
      create index on bookings using gist (during);
      create unique index on bookings (lower(guest), during) where state = 'asked';
      create table prices (room smallint references rooms on delete cascade, season text, cents cents,
        constraint prices_key primary key (room, season) include (cents));
      create materialized view occupied as select room, count(*) as n, max(upper(during)) as until
        from bookings group by room;
      create unique index on occupied (room);
      create index on occupied (until desc);
      create view upcoming as select b.*, r.name as room_name from bookings b join rooms r on r.id = b.room
        where upper(b.during) > now();
      insert into rooms (name) values ('Blue');
      insert into bookings (guest, during, price) values ('ann@example.com', '[2026-01-01,2026-01-03)', 100);`,
  },
  {
    name: 'measurements: all types, all forms of defaults, columns with collations',
    left: [],
    sql: `
      create schema serials; create sequence serials.numbers as integer start 7;
      create table readings (id uuid primary key default gen_random_uuid(),
        number integer default nextval('serials.numbers'), kind "char", label_text text, label name,
        code char, bits bit varying(12), flag bit(3) default b'101',
        amount money default '12.50'::money, doc xml, mac macaddr, mac8 macaddr8,
        net cidr default '10.0.0.0/8', spot point default point(1, 2), area polygon, line lseg, ring circle,
        way path, box box,
        query tsquery, vector tsvector, lsn pg_lsn,
        days interval day to second(2) default '1 day'::interval, at time(3) with time zone,
        clock time default localtime, matrix integer[][] default '{{1,2},{3,4}}',
        big numeric default 123456789012345678901234567890.5, tiny numeric(20,10) default 1e-10,
        neg int default -5, real_one real default 'NaN', inf double precision default '-infinity',
        ever timestamptz default 'infinity',
        who text default current_user, born date default (current_date - interval '18 years'),
        token text default md5(random()::text), line_break text default E'a\\nb\\\\c',
        empty text default '', nothing text default null::text,
        json json default '{"a": [1, 2]}', deep jsonb default jsonb_build_object('k', 1),
        words text[] default array['a', 'b,c', null], span int4range default '[1,10)', spans nummultirange,
        days_of datemultirange,
        rate float4 default 0.1, total numeric(12,0) generated always as (round(123.4)) stored,
        sorted text collate "und-x-icu", plain varchar(20) collate "POSIX" default 'x'::varchar, oid_of oid,
        class regclass default 'readings'::regclass,
        b boolean default (1 = 1), t timestamp default (now() at time zone 'Europe/Berlin'),
        o text default ('a' || 'b'), c text default case when true then 'x' else 'y' end,
        utc timestamp without time zone default timezone('utc'::text, now()));
      create index on readings (sorted collate "C", plain desc);
      create index on readings using gist (spot);
      create index on readings using spgist (label_text) where label_text is not null;
      create index on readings ((deep #>> '{a,b}'), ((number * 2) % 3), (number is null));
      insert into readings (number) values (1);`,
    schemas: ['serials'],
  },
  {
    name: 'a ledger: one audit function for many tables, transition tables, constraint triggers, writes through a view',
    schemas: ['ledger', 'audit'],
    grants: `grant usage on schema ledger, audit to anon, authenticated, service_role;
      grant all on all tables in schema ledger, audit to anon, authenticated, service_role`,
    left: [],
    sql: `
      create schema ledger; create schema audit;
      create table audit.log (id bigint generated always as identity primary key,
        at timestamptz not null default clock_timestamp(), who text not null default session_user,
        op text not null, of regclass, was jsonb, is_now jsonb);
      create table ledger.account (id int primary key, name text not null unique,
        parent int references ledger.account deferrable initially deferred);
      create table ledger.entry (id bigint generated always as identity primary key,
        account int not null references ledger.account, cents bigint not null, booking int not null, note text);
      create table ledger.note (id int primary key, body text);
      create function audit.record() returns trigger language plpgsql security definer
        set search_path = audit, pg_temp as $$
        begin
          insert into audit.log (op, of, was, is_now)
            values (tg_op || tg_argv[0], tg_relid, to_jsonb(old), to_jsonb(new));
          return coalesce(new, old);
        end $$;
      create function ledger.balanced() returns trigger language plpgsql as $$
        begin
          if (select sum(cents) from ledger.entry where booking = new.booking) <> 0
            then raise exception 'not balanced'; end if;
          return null;
        end $$;
      create function ledger.count_new() returns trigger language plpgsql
        as $$ begin perform count(*) from added; return null; end $$;
      create function ledger.write_through() returns trigger language plpgsql
        as $$ begin insert into ledger.account values (new.id, new.name); return new; end $$;
      ${AUDIT_TRIGGERS}
      create constraint trigger balanced after insert or update
        on ledger.entry deferrable initially deferred for each row execute function ledger.balanced();
      create trigger counted after insert on ledger.entry referencing new table as added for each statement
        execute function ledger.count_new();
      create trigger no_truncate before truncate on ledger.entry for each statement execute function ledger.count_new();
      create view ledger.tree with (security_invoker = true)
        as with recursive t as (select id, name, 0 as depth from ledger.account where parent is null
        union all select a.id, a.name, t.depth + 1 from ledger.account a join t on a.parent = t.id) select * from t;
      create trigger into_tree instead of insert on ledger.tree for each row execute function ledger.write_through();
      create function ledger.path_of(account int, out path text[], out depth int)
        language plpgsql stable strict parallel safe cost 50
        as $$ begin path := array[account::text]; depth := 1; end $$;
      create function ledger.pairs(variadic ids int[]) returns setof record language sql immutable rows 5
        as 'select i, i + 1 from unnest(ids) i';
      create function ledger.first_of(anyarray) returns anyelement language sql immutable strict as 'select $1[1]';
      create function ledger.sum_of(n int default 1, inout total numeric default 0.5)
        language plpgsql set work_mem = '8MB' set statement_timeout = '2s' as 'begin total := total + n; end';
      create procedure ledger.close_year(year int, inout closed boolean default false) language plpgsql
        as 'begin closed := year < 2026; end';
      insert into ledger.account values (1, 'Cash');
      insert into ledger.entry (account, cents, booking) values (1, 5, 1), (1, -5, 1);`,
  },
  {
    name: 'a wiki: full text, ltree, SQL keywords and words of other languages as names',
    prepare: `create extension if not exists ltree schema public;
        create extension if not exists pg_trgm schema extensions;
        create extension if not exists unaccent schema extensions`,
    left: [],
    sql: `
      create table "user" (id int primary key, "select" text, "group" text default 'all',
        "order" int not null default 0, "constructor" text, "__proto__" text, "2nd" text,
        "naïve Größe" text, "it's" text, "greet ""hi""" text, "a.b" text);
      create table "Order.Lines" (id int primary key, "user" int references "user" on delete cascade,
        "a.b" text unique);
      create table "päge" (id bigint generated always as identity primary key, path public.ltree not null,
        title text not null, body text not null default '', lang regconfig not null default 'english',
        words tsvector generated always as (setweight(to_tsvector('english', title), 'A')
          || setweight(to_tsvector('english', body), 'B')) stored, updated tsvector);
      create index on "päge" using gin (words);
      create index on "päge" using gist (path);
      create index "title, anyhow" on "päge" using gin (lower(title) extensions.gin_trgm_ops);
      create index on "päge" (lower(title) collate "C" text_pattern_ops);
      create trigger "keep words" before insert or update on "päge" for each row
        execute function tsvector_update_trigger('updated', 'pg_catalog.english', 'title', 'body');
      create function "search pages"("Query" text, "limit" int default 20) returns setof "päge" language sql stable as
        $$ select * from "päge" where words @@ websearch_to_tsquery('english', "Query")
          order by ts_rank(words, websearch_to_tsquery('english', "Query")) desc limit "limit" $$;
      create function slug(title text) returns text language sql immutable
        set search_path = public, extensions
        as $$ select regexp_replace(lower(extensions.unaccent(title)), '[^a-z0-9]+', '-', 'g') $$;
      create view "table" with (security_invoker = true) as select id, "select", "greet ""hi""" as "values"
        from "user" where "group" <> 'none';
      create view tree as with recursive up as (select id, path, 1 as n from "päge"
        union all select p.id, p.path, n + 1 from "päge" p
        join up on p.path operator(public.@>) up.path and n < 3) select * from up;
      alter table "user" enable row level security;
      create policy "it's ""everybody's""" on "user" for select
        using ("group" = any (array['all', 'it''s']) and "a.b" is distinct from 'x');
      insert into "user" (id) values (1); insert into "päge" (path, title) values ('a.b', 'Hello');`,
  },
];
