// Traits of changes to types, sequences, extensions and objects that statements create.
import type { ChangeOf } from '../diff/change-kinds.ts';
import { canKeepStatement } from '../diff/objects/statements.ts';
import { statementPhase, type LiveStatement } from '../schema/statements.ts';
import { type ObjectKey, wordKeys } from './object-key.ts';
import type { AlteredObject, RemovedObject, TraitsByKind } from './trait-types.ts';

export const STATEMENT_TRAITS = {
  'create-statement': { provides: statementName, requires: statementKeys },
  'recreate-statement': {
    provides: statementName,
    requires: statementKeys,
    removes: removedStatement,
    alters: ({ live, statement }) => alteredStatement(live, statement.at),
    holds: ({ live }) => live.definition,
  },
  'alter-statement': { requires: statementKeys },
  'grant-statement': { requires: statementKeys },
  'comment-statement': { requires: statementKeys },
  'drop-statement': {
    // Objects that use it may be created again in the cutover. Rules and statistics have no users.
    requires: ({ live }) =>
      statementPhase(live) === 'last' ? wordKeys('name', ...live.definition) : ['cutover'],
    removes: removedStatement,
    // An object that may stay is dropped after its users, or not at all.
    alters: ({ live }) =>
      canKeepStatement(live) ? null : alteredStatement(live, `statements.${live.identity}`),
    holds: ({ live }) => live.definition,
  },
  'create-type': {},
  'add-values': {},
  'recreate-type': {},
  'add-domain-check': {},
  'validate-domain-check': {},
  'drop-domain-check': {},
  'set-domain-default': {},
  'set-domain-not-null': {},
  'add-attribute': {},
  'comment-type': {},
  // A column has the type until the cutover.
  'drop-type': { requires: () => ['cutover'] },
  'create-sequence': {},
  'alter-sequence': {},
  'grant-free-sequence': {},
  'comment-sequence': {},
  'create-extension': {},
  'update-extension': {},
} satisfies Partial<TraitsByKind>;

type StatementChange = ChangeOf<
  'create-statement' | 'recreate-statement' | 'alter-statement' | 'grant-statement' | 'comment-statement'
>;

function statementName({
  statement,
}: ChangeOf<'create-statement' | 'recreate-statement'>): readonly ObjectKey[] {
  return statement.name === '' ? [] : [`name ${statement.name}`];
}

function statementKeys(change: StatementChange): readonly ObjectKey[] {
  const live = 'live' in change ? change.live : null;
  const texts = [...(change.statement.normal?.definition ?? []), ...(live?.definition ?? [])];
  return [
    `name ${change.statement.name}`,
    ...wordKeys('name', ...texts),
    ...wordKeys('table-name', ...texts),
  ];
}

function removedStatement({ live }: { readonly live: LiveStatement }): readonly RemovedObject[] {
  return [{ kind: 'statement', table: '', label: live.address }];
}

function alteredStatement({ address }: LiveStatement, at: string): AlteredObject {
  const [catalog = '', oid = ''] = address.split('/');
  return { class: catalog, oid, number: 0, at, goes: false };
}
