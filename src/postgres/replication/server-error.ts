/** What the server says on a stream that `pg` no longer reads. */
export class PgServerError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'PgServerError';
    this.code = code;
  }

  /** The body of an ErrorResponse: fields that begin with a letter and end with a zero. */
  static read(bytes: Buffer, start: number, end: number): PgServerError {
    const fields = bytes.toString('utf8', start, end).split('\0');
    const field = (letter: string): string | undefined =>
      fields.find((text) => text.startsWith(letter))?.slice(1);
    return new PgServerError(field('C') ?? '', field('M') ?? 'the server ended the stream');
  }
}
