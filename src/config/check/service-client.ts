// The one thing that is asked of a handler's source without running it.

/** In code, not in a comment. A name built at run time is not seen here; the worker refuses it then. */
export function mentionsServiceClient(source: string): boolean {
  const code = source.replace(
    /("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (_whole, text: string | undefined) => text ?? ' ',
  );
  return /\bserviceClient\b/.test(code);
}
