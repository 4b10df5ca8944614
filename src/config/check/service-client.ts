// Whether the source of a code function uses ctx.serviceClient.

/** In code, not in a comment. A name built at run time is missed here, and the worker refuses it. */
export function mentionsServiceClient(source: string): boolean {
  const code = source.replace(
    /("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (_whole, text: string | undefined) => text ?? ' ',
  );
  return /\bserviceClient\b/.test(code);
}
