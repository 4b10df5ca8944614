// Which tables of a changed file are read again, case by case. Of every case: what is then known is what reading all of it
// says, or all of it is read.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { loadChanged, loadConfig, type Loaded, type LoadOptions } from '../load.ts';
import type { Source } from '../read/source.ts';
import { loadSqlParser } from '../sql/parser.ts';
import { unreadTables } from './unread-tables.ts';

beforeAll(loadSqlParser);

const directories: string[] = [];
afterEach(() => {
  for (const directory of directories.splice(0)) rmSync(directory, { recursive: true });
});

const closed = (name: string, more = ''): string =>
  `  ${name}:\n    fields:\n      - { name: id, type: bigint, primary_key: true }\n${more}    rls: []\n`;
const refersTo = (target: string): string => `      - { name: of, foreign_key: { references: ${target} } }\n`;

/** The first table of a file is always read. */
const SVC_YAML = `version: 1
tables:
${closed('first')}${closed('notes')}${closed('tags', refersTo('notes.id'))}${closed('labels', refersTo('tags.id'))}\
${closed('rooms')}${closed('places')}storage:
  pictures: {}
`;

type Read = {
  /** Names of the tables that are not read again; undefined where everything is. */
  readonly unread: readonly string[] | undefined;
  /** What was known without them is what the file says. */
  readonly isTaken: boolean;
};

const OPTIONS: LoadOptions = { variables: {} };

function reread(
  changed: Readonly<Record<string, string>>,
  files: Readonly<Record<string, string>> = { 'svc.yaml': SVC_YAML },
  { meanwhile }: { readonly meanwhile?: Readonly<Record<string, string>> } = {},
): Read {
  const directory = mkdtempSync(join(tmpdir(), 'svc-unread-'));
  directories.push(directory);
  const write = (texts: Readonly<Record<string, string>>): void => {
    for (const [path, text] of Object.entries(texts)) {
      mkdirSync(dirname(join(directory, path)), { recursive: true });
      writeFileSync(join(directory, path), text);
    }
  };
  const sourceOf = (text = ''): Source => ({ name: 'svc.yaml', directory, mode: 'production', text });
  write(files);
  const text = files['svc.yaml'] ?? '';
  const before = loadConfig(sourceOf(text), OPTIONS);
  assert(before.ok, JSON.stringify(before).slice(0, 1_000));
  write(changed);
  const now = sourceOf(changed['svc.yaml'] ?? text);
  const unread = unreadTables(now, { ...before, ...before.included, text });
  write(meanwhile ?? {});
  const taken = unread && loadChanged(now, OPTIONS, unread);
  const all: Loaded = loadConfig(now, OPTIONS);
  if (taken) assert.deepStrictEqual(taken, all);
  return { unread: unread && [...unread.tables.keys()], isTaken: taken !== undefined };
}

const replaced = (from: string, to: string): Readonly<Record<string, string>> => {
  expect(SVC_YAML).toContain(from);
  return { 'svc.yaml': SVC_YAML.replace(from, to) };
};

describe('of a changed table', () => {
  test('it and those that name it are read again', () => {
    expect(reread(replaced(closed('notes'), closed('notes', '      - { name: n, type: text }\n')))).toEqual({
      unread: ['labels', 'rooms', 'places'],
      isTaken: true,
    });
  });

  test('a name in a condition counts in any case', () => {
    const files = {
      'svc.yaml': SVC_YAML.replace(
        closed('rooms'),
        closed('rooms', '      - { name: n, type: text, check: n <> $$NOTES$$ }\n'),
      ),
    };
    const changed = { 'svc.yaml': (files['svc.yaml'] ?? '').replace('  notes:', '  notes: # here') };
    expect(reread(changed, files).unread).toEqual(['labels', 'places']);
  });

  test.each([
    ['a variable', "'${TARGET:-notes.id}'"],
    ['an escape', String.raw`"\x6eotes.id"`],
    ['an escape of four digits', String.raw`"\u006eotes.id"`],
    ['a line that goes on', '"no\\\n          tes.id"'],
  ])('a name that %s hides is taken for one', (_what, target) => {
    const files = { 'svc.yaml': SVC_YAML.replace(closed('rooms'), closed('rooms', refersTo(target))) };
    const dropped = (files['svc.yaml'] ?? '').replace(
      closed('notes'),
      closed('notes').replace('bigint', 'uuid'),
    );
    expect(reread({ 'svc.yaml': dropped }, files)).toEqual({ unread: ['labels', 'places'], isTaken: true });
  });

  test('that is gone, those that named it are mistakes', () => {
    expect(reread(replaced(closed('notes'), '')).isTaken).toBe(false);
    expect(reread(replaced(closed('labels', refersTo('tags.id')), '')).isTaken).toBe(true);
  });

  test('that is new, and that is moved', () => {
    expect(reread(replaced(closed('rooms'), `${closed('rooms')}${closed('more')}`))).toEqual({
      unread: ['notes', 'tags', 'labels', 'rooms', 'places'],
      isTaken: true,
    });
    expect(
      reread(replaced(`${closed('rooms')}${closed('places')}`, `${closed('places')}${closed('rooms')}`)),
    ).toEqual({
      unread: ['notes', 'tags', 'labels', 'places', 'rooms'],
      isTaken: true,
    });
  });

  test('the name of an index that another one has, before it or after it, is a mistake', () => {
    const withIndex = (name: string): string =>
      closed(name).replace('    rls', '    indexes: [{ name: by_id, columns: [id] }]\n    rls');
    for (const owner of ['notes', 'places']) {
      const files = { 'svc.yaml': SVC_YAML.replace(closed(owner), withIndex(owner)) };
      const changed = (files['svc.yaml'] ?? '').replace(closed('rooms'), withIndex('rooms'));
      expect(reread({ 'svc.yaml': changed }, files)).toEqual({
        unread: expect.arrayContaining([owner]),
        isTaken: false,
      });
    }
  });

  test('a ring of policies that leads through a table that is not read is found', () => {
    const reads = (name: string, other: string): string =>
      closed(name).replace(
        'rls: []',
        `rls: [{ operations: [select], using: exists (select from ${other}) }]`,
      );
    const files = {
      'svc.yaml': SVC_YAML.replace(closed('notes'), reads('notes', 'rooms')).replace(
        closed('rooms'),
        reads('rooms', 'places'),
      ),
    };
    const changed = (files['svc.yaml'] ?? '').replace(closed('places'), reads('places', 'notes'));
    expect(reread({ 'svc.yaml': changed }, files)).toEqual({
      unread: ['notes', 'tags', 'labels'],
      isTaken: false,
    });
  });

  test('a table of which there is a warning is read again, so that it is said again', () => {
    const files = {
      'svc.yaml': SVC_YAML.replace(closed('places'), closed('places').replace('    rls: []\n', '')),
    };
    const changed = (files['svc.yaml'] ?? '').replace('  rooms:', '  rooms: # here');
    expect(reread({ 'svc.yaml': changed }, files)).toEqual({
      unread: ['notes', 'tags', 'labels'],
      isTaken: true,
    });
  });
});

describe('everything is read', () => {
  test.each([
    ['something else has changed', replaced('pictures', 'images')],
    ['something is said above the tables', replaced('version: 1\n', 'version: 1\nproject: { name: shop }\n')],
    ['the tables are written in another form', replaced('  places:', '  "places":')],
    ['there is an anchor', replaced('  places:', '  places: &all')],
    ['hardly a table is as it was', { 'svc.yaml': SVC_YAML.replaceAll('bigint', 'uuid') }],
  ])('where %s', (_what, changed) => {
    expect(reread(changed)).toEqual({ unread: undefined, isTaken: false });
  });
});

describe('of several files', () => {
  const files = {
    'svc.yaml': `version: 1\ninclude: tables/*.yaml\nsql: sql/*.sql\n${SVC_YAML.slice('version: 1\n'.length)}`,
    'tables/people.yaml': `tables:\n${closed('people')}${closed('friends', refersTo('people.id'))}${closed('visits', refersTo('rooms.id'))}`,
    'tables/functions.yaml': 'rpc:\n  one: { language: sql, returns: { type: integer }, body: select 1 }\n',
    'sql/app.sql': `create function stamped() returns trigger language plpgsql as $$ begin return new; end $$;
      create trigger stamp before insert on friends for each row execute function stamped();`,
  };

  test('a change in one of them leaves the tables of others unread, but for those that it or an SQL file names', () => {
    const changed = { 'svc.yaml': files['svc.yaml'].replace('  rooms:', '  rooms: # here') };
    expect(reread(changed, files)).toEqual({ unread: ['notes', 'tags', 'labels', 'places'], isTaken: true });
    const included = {
      'tables/people.yaml': files['tables/people.yaml'].replace('  friends:', '  friends: # here'),
    };
    expect(reread(included, files)).toEqual({
      unread: ['notes', 'tags', 'labels', 'rooms', 'places', 'visits'],
      isTaken: true,
    });
  });

  test('a part without tables may not change', () => {
    const changed = {
      'tables/functions.yaml': files['tables/functions.yaml'].replace('select 1', 'select 2'),
    };
    expect(reread(changed, files).unread).toBeUndefined();
  });

  test('one that is written meanwhile is read as a whole', () => {
    const changed = {
      'tables/people.yaml': files['tables/people.yaml'].replace('  friends:', '  friends: # here'),
    };
    const meanwhile = {
      'tables/people.yaml': files['tables/people.yaml'].replace('  visits:', '  visits: # there'),
    };
    expect(reread(changed, files, { meanwhile }).isTaken).toBe(false);
  });

  test('a table that stands in two of them is read in both', () => {
    const twice = {
      ...files,
      'tables/more.yaml': `tables:\n${closed('more')}  notes:\n    triggers: [{ timing: before, events: [insert], call: stamped }]\n`,
      'svc.yaml': files['svc.yaml'].replace(closed('notes'), `${closed('notes')}    triggers: []\n`),
    };
    const changed = { 'svc.yaml': twice['svc.yaml'].replace('  rooms:', '  rooms: # here') };
    expect(reread(changed, twice)).toEqual({ unread: ['tags', 'labels', 'places'], isTaken: true });
  });
});
