// Runs the statements that a refusal prints, like a user who pastes them into psql.
import pg from 'pg';
import { expect } from 'vitest';
import type { MigrationProblem } from '../../src/migrate/problem.ts';

/** Returns the statements of the hint in order, without the text around them. */
function listStatements(hint: string | null): string[] {
  return (hint ?? '').split(/(?<=;) (?=[A-Z])/).flatMap((part) => {
    const found = /(?:^|: )((?:select|update|begin;|create function) .*;)/s.exec(part)?.[1];
    return found === undefined ? [] : [found];
  });
}

/** Runs each statement and expects the query to return the number of rows in the message. */
export async function expectPrintedQueriesToRun(
  url: string,
  { message, hint }: MigrationProblem,
): Promise<void> {
  const counted = /([\d,]+)(?: of [\d,]+)? (?:rows?|values?)\b/.exec(message)?.[1]?.replaceAll(',', '');
  const client = new pg.Client(url);
  await client.connect();
  try {
    for (const statement of listStatements(hint)) {
      await client.query('begin');
      const results = [await client.query(statement)].flat();
      const last = results.filter(({ command }) => command !== 'ROLLBACK').at(-1);
      if (last?.command === 'SELECT')
        expect([statement, last.rows.length]).toEqual([statement, Number(counted)]);
      else expect([statement, last?.rowCount]).toEqual([statement, Number(counted)]);
      await client.query('rollback');
    }
  } finally {
    await client.end();
  }
}
