export type ParsedHeaders = {
  headers: Array<[string, string]>;
  /** First line that is not a header. */
  wrong: string | undefined;
};

/** Parses `name: value` lines. Empty lines are ignored. */
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
