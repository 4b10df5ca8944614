// Detects code functions that use ctx.serviceClient.

/** Ignores comments. A name that is built at run time is not detected here; the worker rejects it. */
export function mentionsServiceClient(source: string): boolean {
  const code = source.replace(
    /("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (_whole, text: string | undefined) => text ?? ' ',
  );
  return /\bserviceClient\b/.test(code);
}
