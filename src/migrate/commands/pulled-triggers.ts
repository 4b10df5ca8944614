// Converts the triggers that svc created for `on_update` and `on_new_user` back to these keys. The comments of their
// functions contain the declarations of the file.
import type { LiveTrigger } from '../schema/triggers.ts';
import { parseTriggerFunction, ON_UPDATE } from '../schema/row-triggers.ts';
import { isConstantTime } from '../../lib/sql/sql-text.ts';

type Node = Record<string, unknown>;

export function onUpdateKey(triggers: readonly LiveTrigger[], column: string): Node {
  const trigger = triggers.find((trigger) => trigger.label === ON_UPDATE);
  const text = trigger ? readDeclaration(trigger)[column] : undefined;
  if (typeof text !== 'string') return {};
  return { on_update: isConstantTime(text) ? text.trim().toLowerCase() : { sql: text } };
}

export function newUserKey(triggers: readonly LiveTrigger[], table: string): Node {
  const declaration = triggers.map(readDeclaration).find((entry) => entry['table'] === table);
  if (declaration === undefined) return {};
  const { set, when } = declaration;
  return { on_new_user: typeof when === 'string' ? { when, set } : set };
}

function readDeclaration({ definition, comment }: LiveTrigger): Node {
  if (parseTriggerFunction(definition) === null || comment === null) return {};
  try {
    const declaration: unknown = JSON.parse(comment);
    return typeof declaration === 'object' && declaration !== null ? { ...declaration } : {};
  } catch {
    // A user has replaced the comment.
    return {};
  }
}
