// Names of prepared statements. Behind a pooler another instance, or another version, may prepare on the very session
// that we find a name on: so a name says what it means, and can mean nothing else.
import { createHash } from 'node:crypto';

/** 132 bits of them. */
const CHARACTERS = 22;

/** `role`: whose plan it is; empty where that makes no difference. */
export function statementName(role: string, text: string): string {
  return createHash('sha256').update(`${role}\0${text}`).digest('base64url').slice(0, CHARACTERS);
}
