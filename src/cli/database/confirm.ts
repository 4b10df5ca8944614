// Asks for confirmation before an irreversible action.
import { createInterface } from 'node:readline/promises';
import { EXIT, failure } from '../exit.ts';

/** Throws unless the answer is yes. Without a terminal, only `--yes` confirms. */
export async function confirm(question: string, yes: boolean | undefined): Promise<void> {
  if (yes === true) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw failure(EXIT.misuse, `${question} svc cannot ask without a terminal`, 'Use --yes in scripts.');
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await lines.question(`${question} [y/N] `);
    if (/^y(es)?$/i.test(answer.trim())) return;
    throw failure(EXIT.problem, 'nothing was done');
  } finally {
    lines.close();
  }
}
