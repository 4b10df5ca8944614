// Names of prepared statements. Behind a pooler, another instance or version may prepare on the same session. The
// name therefore identifies the statement's meaning uniquely.
import { createHash } from 'node:crypto';

/** Keeps 132 bits of the hash. */
const CHARACTERS = 22;

/** `role`: the role of the plan; empty if it is irrelevant. */
export function statementName(role: string, text: string): string {
  return createHash('sha256').update(`${role}\0${text}`).digest('base64url').slice(0, CHARACTERS);
}
