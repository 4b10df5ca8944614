export type ParsedHeaders = {
  headers: Array<[string, string]>;
  /** The first line that is no header. */
  wrong: string | undefined;
};

/** `name: value`, one a line; empty lines are nothing. */
export function parseHeaders(text: string): ParsedHeaders {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const wrong = lines.find((line) => !/^[!#$%&'*+.^_`|~\w-]+\s*:/.test(line));
  if (wrong !== undefined) return { headers: [], wrong };
  const headers = lines.map((line): [string, string] => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
  });
  return { headers, wrong: undefined };
}
