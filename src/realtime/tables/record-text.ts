// Parses a row that PostgreSQL has cast to text: `(7,"a, b",)`.

/** Returns the values by column. Null is an empty field without quotes. Throws RangeError for other texts. */
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
