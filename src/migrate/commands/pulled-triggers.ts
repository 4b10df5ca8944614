// The triggers that svc made for `on_update` and `on_new_user`, as these keys again. Their functions' comments hold what
// the file said.
import type { LiveTrigger } from '../schema/triggers.ts';
import { functionOf, ON_UPDATE } from '../schema/row-triggers.ts';
import { isConstantTime } from '../../lib/sql/sql-text.ts';

type Node = Record<string, unknown>;

export function onUpdateKey(triggers: readonly LiveTrigger[], column: string): Node {
  const trigger = triggers.find((one) => one.label === ON_UPDATE);
  const text = trigger ? saidBy(trigger)[column] : undefined;
  if (typeof text !== 'string') return {};
  return { on_update: isConstantTime(text) ? text.trim().toLowerCase() : { sql: text } };
}

export function newUserKey(triggers: readonly LiveTrigger[], table: string): Node {
  const said = triggers.map(saidBy).find((one) => one['table'] === table);
  if (said === undefined) return {};
  const { set, when } = said;
  return { on_new_user: typeof when === 'string' ? { when, set } : set };
}

function saidBy({ definition, comment }: LiveTrigger): Node {
  if (functionOf(definition) === null || comment === null) return {};
  try {
    const said: unknown = JSON.parse(comment);
    return typeof said === 'object' && said !== null ? { ...said } : {};
  } catch {
    // Somebody has commented on it since.
    return {};
  }
}
