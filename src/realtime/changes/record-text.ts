// A row as PostgreSQL writes it when it is cast to text: `(7,"a, b",)`.

/** By column; what is null has nothing between its commas. Throws RangeError when it is no such text. */
export function readRecord(text: string): Array<string | null> {
  if (!text.startsWith('(') || !text.endsWith(')')) throw new RangeError('not the text of a row');
  const values: Array<string | null> = [];
  const end = text.length - 1;
  let at = 1;
  for (;;) {
    let value = '';
    let isNull = true;
    let isQuoted = false;
    for (; at < end; at++) {
      const char = text.charAt(at);
      if (!isQuoted && char === ',') break;
      isNull = false;
      if (char === '"') {
        if (isQuoted && text.charAt(at + 1) === '"') value += text.charAt(at++);
        else isQuoted = !isQuoted;
      } else if (char === '\\') value += text.charAt(++at);
      else value += char;
    }
    values.push(isNull ? null : value);
    if (at >= end) break;
    at += 1;
  }
  return values;
}
