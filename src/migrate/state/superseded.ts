// Messages about a file that is not applied because the database follows another file.
import { checkSuperseded, type Fence, type FencePolicy, type SupersededCode } from './fence.ts';

export type Superseded = {
  readonly code: SupersededCode;
  readonly schemaHash: string;
  readonly deploySeq: number | null;
  /** The file that the database follows. */
  readonly by: string;
  readonly since: Date | null;
  readonly replacedAt: Date | null;
  readonly newestSeq: number | null;
};

export function supersededFile(
  fence: Fence,
  schemaHash: string,
  policy: FencePolicy,
): Superseded | undefined {
  const code = checkSuperseded(fence, schemaHash, policy);
  if (code === undefined || fence.current === null) return undefined;
  const { currentSince: since, replacedAt, newestSeq } = fence;
  return { code, schemaHash, deploySeq: policy.deploySeq, by: fence.current, since, replacedAt, newestSeq };
}

/** Returns one sentence with the reason. */
export function describeSuperseded(superseded: Superseded): string {
  const { code, schemaHash, deploySeq, by, since, replacedAt, newestSeq } = superseded;
  const own = fileName(schemaHash, deploySeq);
  const newest = newestSeq === null ? null : numberName(newestSeq);
  if (code === 'MIG-405')
    return (
      `two files have the same number, ${deploySeq}: this file (${short(schemaHash)}) and ${short(by)}, ` +
      `which was applied${at(since)}`
    );
  if (code === 'MIG-406')
    return (
      `this project is deployed with numbers (the newest file is ${newest}), but this start has none: ` +
      `file ${short(schemaHash)} is not applied over ${short(by)}`
    );
  if (replacedAt !== null)
    return `this file, ${own}, was replaced${at(replacedAt)} by ${fileName(by, newestSeq)}`;
  return `this file, ${own}, is older than the file applied${at(since)}: ${fileName(by, newestSeq)}`;
}

/** Returns instructions for the operator. */
export function remedyFor({ code, schemaHash, deploySeq, newestSeq }: Superseded): string {
  const anyway =
    'To apply this file anyway, run svc migrate apply --allow-rollback, ' +
    `or start with SVC_ALLOW_ROLLBACK=${short(schemaHash)}.`;
  switch (code) {
    case 'MIG-405':
      return (
        'Give every deployment its own number: a larger --deploy-seq, or svc stamp in the build ' +
        `(a cached layer of an image keeps the previous stamp). ${anyway}`
      );
    case 'MIG-406':
      return `Run svc stamp in the build, or pass --deploy-seq. ${anyway}`;
    case 'MIG-403':
      if (deploySeq !== null && newestSeq !== null && !isTime(deploySeq) && isTime(newestSeq))
        return (
          'The newest number is a build stamp, which is larger than any number counted by hand: ' +
          `use one kind of number. ${anyway}`
        );
      return deploySeq === null
        ? `If this is a revert, number the deployments (svc stamp in the build), so that it gets a newer number. ${anyway}`
        : `If this is a revert, build it again to give it a newer number. ${anyway}`;
  }
}

const MAX_LISTED_DIFFERENCES = 5;

/** Returns the log record. `differences` are the steps of a migration to this file. */
export function supersededReport(
  superseded: Superseded,
  differences: readonly string[],
): { readonly message: string; readonly hint: string; readonly differs: readonly string[] } {
  const more = differences.length - MAX_LISTED_DIFFERENCES;
  return {
    message: `${superseded.code} ${describeSuperseded(superseded)}. Serving the database as it is`,
    hint: remedyFor(superseded),
    differs: [...differences.slice(0, MAX_LISTED_DIFFERENCES), ...(more > 0 ? [`${more} more`] : [])],
  };
}

function fileName(hash: string, seq: number | null): string {
  return seq === null ? short(hash) : `${short(hash)} ${numberName(seq)}`;
}

function numberName(seq: number): string {
  return isTime(seq) ? `built ${minute(new Date(seq))}` : `with number ${seq}`;
}

/** Stamps are milliseconds since 1970. Counted numbers are far smaller; dates written as digits are larger. */
function isTime(seq: number): boolean {
  return seq > 1.4e12 && seq < 5e12;
}

function short(hash: string): string {
  return hash.slice(0, 8);
}

function at(date: Date | null): string {
  return date === null ? '' : ` at ${minute(date)}`;
}

function minute(date: Date): string {
  return `${date.toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
