// SQL text of the file with its path in the file and its normal form.

export type Expression = {
  readonly sql: string;
  readonly written: string;
  readonly at: string;
  /** Normal form: the expression as printed by the server. Empty before normalisation. */
  readonly normal: string;
};

export function expression(text: string, at: string): Expression {
  return { sql: text, written: text, at, normal: '' };
}
