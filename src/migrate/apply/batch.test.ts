import { expect, test } from 'vitest';
import { fold } from './batch.ts';
import type { NumberedStep, Step, TablePart } from '../plan/step.ts';

function steps(...said: readonly (readonly [sql: string, part?: TablePart])[]): NumberedStep[] {
  return said.map(([sql, part], ordinal) => {
    const step: Step = {
      sql,
      lane: 'metadata',
      stage: 'columns',
      identity: sql,
      at: sql,
      sign: '+',
      summary: sql,
      table: null,
      lock: 'none',
      rewrites: false,
      scans: false,
      estimateMs: 1,
      hazards: [],
      action: { kind: 'sql' },
      deferred: false,
      part,
    };
    return { ordinal, step };
  });
}

function table(name: string): readonly [string, TablePart] {
  const columns = [
    { name: 'id', sql: 'id bigint', notNull: true },
    { name: 'up', sql: 'up bigint', notNull: false },
  ];
  return [`create ${name}`, { kind: 'table', table: name, columns }];
}

function reference(from: string, to: string): readonly [string, TablePart] {
  const sql = `constraint fk foreign key (up) references ${to} (id)`;
  return [`refer ${from} ${to}`, { kind: 'reference', table: from, target: to, sql }];
}

test('what belongs to a new table goes into its CREATE TABLE, whatever stands between', () => {
  const folded = fold(
    steps(
      table('a'),
      table('b'),
      ['alter c'],
      ['default', { kind: 'default', table: 'a', column: 'id', sql: '7' }],
      ['key', { kind: 'key', table: 'b', sql: 'constraint b_pkey primary key (id)' }],
      ['check', { kind: 'check', table: 'b', sql: 'constraint b_check check (id > 0)' }],
      ['check of an old table', { kind: 'check', table: 'c', sql: 'constraint c_check check (id > 0)' }],
    ),
  );
  expect(folded.map((one) => one.sql)).toEqual([
    'create table a (id bigint default 7 not null, up bigint)',
    'create table b (id bigint not null, up bigint, constraint b_pkey primary key (id), constraint b_check check (id > 0))',
    'alter c',
    'check of an old table',
  ]);
  expect(folded.map((one) => one.steps.map(({ ordinal }) => ordinal))).toEqual([[0, 3], [1, 4, 5], [2], [6]]);
});

test('a reference forward, and one to a table that was there, wait until all tables are made', () => {
  const folded = fold(
    steps(
      table('a'),
      table('b'),
      reference('a', 'b'),
      reference('a', 'old'),
      reference('b', 'a'),
      reference('b', 'b'),
    ),
  );
  expect(folded.map((one) => one.sql)).toEqual([
    'create table a (id bigint not null, up bigint)',
    'create table b (id bigint not null, up bigint, constraint fk foreign key (up) references a (id), constraint fk foreign key (up) references b (id))',
    'alter table a add constraint fk foreign key (up) references b (id), add constraint fk foreign key (up) references old (id)',
  ]);
});

test('what calls a function of the same run stays behind it; a key never calls one', () => {
  const folded = fold(
    steps(
      table('a'),
      ['function', { kind: 'function', name: 'id' }],
      ['default', { kind: 'default', table: 'a', column: 'up', sql: 'public.ID()' }],
      ['key', { kind: 'key', table: 'a', sql: 'constraint a_pkey primary key (id)' }],
      ['check', { kind: 'check', table: 'a', sql: 'constraint a_check check (id(up))' }],
    ),
  );
  expect(folded.map((one) => one.sql)).toEqual([
    'create table a (id bigint not null, up bigint, constraint a_pkey primary key (id))',
    'function',
    'default',
    'check',
  ]);
});

test('neighbouring grants are one statement, others are not', () => {
  const grant = (name: string): readonly [string, TablePart] => ['grant', { kind: 'grant', table: name }];
  const folded = fold(steps(grant('a'), grant('b'), ['other'], grant('c')));
  expect(folded.map((one) => one.steps.length)).toEqual([2, 1, 1]);
  expect(folded[0]?.sql).toContain('grant all on a, b to service_role');
});
