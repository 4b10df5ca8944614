// The one error base. A Problem is the caller's doing or a known state: it has a code and a status and is shown.
// Anything else that is thrown is a fault: logged whole, shown as a bare 500 with the request id.

export type ProblemMore = {
  /** Description of the error that is safe to send to the caller. */
  readonly details?: string | undefined;
  /** Advice for the next step. */
  readonly hint?: string | undefined;
  /** Logged only. No dialect renders it. */
  readonly cause?: unknown;
  /** Response headers this answer needs, for example `Retry-After`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
};

export class Problem<Code extends string = string> extends Error {
  readonly code: Code;
  /** HTTP status, 300 to 599. */
  readonly status: number;
  readonly details: string | undefined;
  readonly hint: string | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(code: Code, status: number, message: string, more: ProblemMore = {}) {
    super(message, { cause: more.cause });
    this.name = 'Problem';
    this.code = code;
    this.status = status;
    this.details = more.details;
    this.hint = more.hint;
    this.headers = more.headers ?? {};
  }
}

/** The client went away, a deadline passed or the body did not come: neither an error to log nor a thing to retry. */
export class Abort extends Error {
  readonly reason: 'client-gone' | 'deadline' | 'slow-body' | 'shutdown';

  constructor(reason: Abort['reason']) {
    super(`aborted: ${reason}`);
    this.name = 'Abort';
    this.reason = reason;
  }
}
