// Where the lines of a text begin, as the YAML library counts them.
import { LineCounter } from 'yaml';

export function countLines(text: string): LineCounter {
  const lines = new LineCounter();
  for (let start = 0; start >= 0; start = text.indexOf('\n', start) + 1 || -1) lines.addNewLine(start);
  return lines;
}
