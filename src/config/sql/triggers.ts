// CREATE TRIGGER → an entry of the triggers of a table, of a view, or of auth.users.
import type { CreateTrigStmt } from '@pgsql/types';
import { Words } from './statement-text.ts';
import { type Declaration, statementHead, refuse, type Written } from './declaration.ts';
import { namesIn, type KeyMap } from './key-nodes.ts';

/** Bits of PostgreSQL's pg_trigger.h. */
const TIMING = { before: 2, insteadOf: 64 } as const;
const EVENTS = { insert: 4, update: 16, delete: 8, truncate: 32 } as const;

export function declareTrigger(written: Written, node: CreateTrigStmt): Declaration {
  const { relation, funcname, timing = 0, events = 0, row = false } = node;
  const { schemaname: schema = 'public', relname: name = '' } = relation ?? {};
  if (node.constrrel)
    refuse(written, 'triggers with FROM are not supported', 'Remove FROM, which only foreign keys need.');
  const transitions = (node.transitionRels ?? []).flatMap((transition) =>
    'TriggerTransition' in transition ? [transition.TriggerTransition] : [],
  );
  const keys: KeyMap = {
    name: node.trigname,
    timing:
      (timing & TIMING.before) !== 0 ? 'before' : (timing & TIMING.insteadOf) !== 0 ? 'instead_of' : 'after',
    events: Object.entries(EVENTS).flatMap(([event, bit]) => ((events & bit) !== 0 ? [event] : [])),
    of: (node.columns ?? []).length === 0 ? undefined : namesIn(node.columns),
    each: row ? undefined : 'statement',
    when: node.whenClause === undefined ? undefined : condition(written),
    call: functionName(namesIn(funcname)),
    args: (node.args ?? []).length === 0 ? undefined : namesIn(node.args),
    old_table: transitions.find(({ isNew }) => isNew !== true)?.name,
    new_table: transitions.find(({ isNew }) => isNew === true)?.name,
    constraint: node.isconstraint
      ? { deferrable: node.initdeferred ? 'deferred' : node.deferrable ? 'immediate' : 'no' }
      : undefined,
  };
  if (schema === 'auth' && name === 'users') refuseForUsers(written, keys);
  return { kind: 'trigger', schema, name, keys, extent: statementHead(written) };
}

function condition({ statement, text }: Written): string {
  return Words.of(statement).after('when').inBrackets.in(text);
}

function functionName(names: readonly string[]): string {
  return names[0] === 'public' ? names.slice(1).join('.') : names.join('.');
}

function refuseForUsers(written: Written, keys: KeyMap): void {
  const [key] = ['each', 'old_table', 'new_table', 'constraint'].filter(
    (option) => keys[option] !== undefined,
  );
  if (key !== undefined)
    refuse(written, 'a trigger of auth.users must run for each row, immediately', 'Write FOR EACH ROW.');
}
