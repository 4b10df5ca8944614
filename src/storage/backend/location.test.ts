import { expect, test } from 'vitest';
import { decide, type Decision, type Situation } from './location.ts';

const S3 = { kind: 's3', endpoint: 'eu-central-1', bucket: 'files', prefix: '' } as const;
const THIS = { kind: 'local', id: 'this' } as const;
const marked = { kind: 'local', mark: 'this' } as const;
const unmarked = { kind: 'local', mark: undefined } as const;
const elsewhere: Decision = { kind: 'elsewhere' };
const same: Decision = { kind: 'same' };

type Row = [what: string, situation: Partial<Situation>, decision: Decision];
const ROWS: Row[] = [
  ['a first start', { found: unmarked }, { kind: 'record', id: undefined }],
  ['a mark of another database’s first start', { found: marked }, { kind: 'record', id: 'this' }],
  ['the recorded mark', { recorded: THIS, found: marked, stored: true }, same],
  ['no mark, and none of the bytes', { recorded: THIS, found: unmarked, stored: true }, elsewhere],
  ['no mark, and nothing is stored yet', { recorded: THIS, found: unmarked }, elsewhere],
  ['another mark', { recorded: { kind: 'local', id: 'other' }, found: marked }, elsewhere],
  [
    'the recorded directory copied without its mark',
    { recorded: THIS, found: unmarked, stored: true, holdsBytes: true },
    { kind: 'mark', id: 'this' },
  ],
  ['a marked directory, objects, and none recorded', { found: marked, stored: true }, elsewhere],
  [
    'the old word, with its bytes',
    { recorded: 'local', found: unmarked, stored: true, holdsBytes: true },
    { kind: 'record', id: undefined },
  ],
  [
    'the old word, marked by another starter',
    { recorded: 'local', found: marked, stored: true, holdsBytes: true },
    { kind: 'record', id: 'this' },
  ],
  ['the old word, none of its bytes', { recorded: 'local', found: unmarked, stored: true }, elsewhere],
  ['the old word, nothing stored', { recorded: 'local', found: unmarked }, { kind: 'record', id: undefined }],
  [
    'dev without objects starts over',
    { recorded: THIS, found: unmarked, dev: true },
    { kind: 'record', id: undefined },
  ],
  ['dev with objects does not', { recorded: THIS, found: unmarked, dev: true, stored: true }, elsewhere],
  ['a store', { found: S3 }, { kind: 'record' }],
  ['the recorded store', { recorded: S3, found: S3, stored: true }, same],
  [
    'the old word for a store',
    { recorded: 's3:eu-central-1/files', found: S3, stored: true },
    { kind: 'record' },
  ],
  ['another store', { recorded: { ...S3, bucket: 'more' }, found: S3, stored: true }, elsewhere],
  [
    'another store before anything is stored',
    { recorded: { ...S3, bucket: 'more' }, found: S3 },
    { kind: 'record' },
  ],
  ['from a directory to a store, with objects', { recorded: THIS, found: S3, stored: true }, elsewhere],
  [
    'from a store to a directory, without',
    { recorded: S3, found: unmarked },
    { kind: 'record', id: undefined },
  ],
];

test.each(ROWS)('%s', (_what, situation, decision) => {
  expect(
    decide({
      recorded: undefined,
      found: unmarked,
      stored: false,
      holdsBytes: false,
      dev: false,
      ...situation,
    }),
  ).toEqual(decision);
});
