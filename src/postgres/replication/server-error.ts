/** Error of the server on a stream that `pg` does not read. */
export class PgServerError extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.name = 'PgServerError';
    this.code = code;
  }

  /** Parses the body of an ErrorResponse: fields that start with a letter and end with a zero. */
  static read(bytes: Buffer, start: number, end: number): PgServerError {
    const fields = bytes.toString('utf8', start, end).split('\0');
    const field = (letter: string): string | undefined =>
      fields.find((text) => text.startsWith(letter))?.slice(1);
    return new PgServerError(field('C') ?? '', field('M') ?? 'the server ended the stream');
  }
}
