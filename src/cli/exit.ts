// How a command ends. Commands throw; only `main.ts` turns what they throw into text and an exit code.

export const EXIT = {
  /** A problem was found: invalid file, refused plan. */
  problem: 1,
  /** The command line itself is wrong. */
  misuse: 2,
  /** Our own fault. */
  fault: 70,
  /** The configuration or environment does not allow a start. */
  badConfiguration: 78,
} as const;

/** Ends the command with this code. `report` is complete text for the terminal, already explained. */
export class CommandFailure extends Error {
  readonly exitCode: number;
  readonly report: string;

  constructor(exitCode: number, report: string) {
    super(report);
    this.name = 'CommandFailure';
    this.exitCode = exitCode;
    this.report = report;
  }
}
