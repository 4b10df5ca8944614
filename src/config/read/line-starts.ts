// Line starts of a text, for the line counter of the YAML library.
import { LineCounter } from 'yaml';

export function countLines(text: string): LineCounter {
  const lines = new LineCounter();
  for (let start = 0; start >= 0; start = text.indexOf('\n', start) + 1 || -1) lines.addNewLine(start);
  return lines;
}
