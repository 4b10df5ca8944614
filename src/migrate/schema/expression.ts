// SQL text of the file, with its place there and what the server makes of it.

export type Expression = {
  readonly sql: string;
  readonly written: string;
  readonly at: string;
  /** The normal form: the server's print. Empty until the server has read it. */
  readonly normal: string;
};

export function expression(text: string, at: string): Expression {
  return { sql: text, written: text, at, normal: '' };
}
