// A question before what cannot be taken back.
import { createInterface } from 'node:readline/promises';
import { EXIT, failure } from '../exit.ts';

/** Throws unless the answer is yes. Nobody is asked in scripts: they say `--yes`. */
export async function confirm(question: string, yes: boolean | undefined): Promise<void> {
  if (yes === true) return;
  if (!process.stdin.isTTY || !process.stderr.isTTY)
    throw failure(EXIT.misuse, `${question} Nobody is here to answer`, 'Say --yes in scripts.');
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await lines.question(`${question} [y/N] `);
    if (/^y(es)?$/i.test(answer.trim())) return;
    throw failure(EXIT.problem, 'Nothing was done');
  } finally {
    lines.close();
  }
}
