// Renders a plan as text, as SQL for other tools, and as JSON.
import { groupBy } from '../../lib/group-by.ts';
import { shortHash } from '../schema/label.ts';
import type { MigrationPlan } from '../make-plan.ts';
import { describeTransfer } from '../checks/ownership.ts';
import { renderProblems } from '../problem.ts';
import { lockMs } from '../plan/step-list.ts';
import {
  HAZARD_TEXTS,
  isAfterMetadata,
  LANE_TEXTS,
  LANES,
  lockedTables,
  type Hazard,
  type Step,
} from '../plan/step.ts';

export type Paint = (style: 'red' | 'green' | 'yellow' | 'cyan' | 'dim' | 'bold', text: string) => string;

export type RenderOptions = {
  readonly paint: Paint;
  readonly locate: (path: string) => string | null;
  /** `app@db.internal/app`. */
  readonly database: string;
};

/** Renders a step in one line without formatting. */
export function stepLine({ sign, at, summary }: Pick<Step, 'sign' | 'at' | 'summary'>): string {
  return `${sign} ${at}: ${inOneLine(summary)}`;
}

/** Joins the lines of an expression and removes the spaces inside parentheses. */
const inOneLine = (text: string): string =>
  text.replace(/\s+/g, ' ').replaceAll('( ', '(').replaceAll(' )', ')');

export function renderPlan(plan: MigrationPlan, options: RenderOptions): string {
  const { paint } = options;
  const from = plan.parentHash === null ? 'an empty history' : plan.parentHash.slice(0, 8);
  const server = `PostgreSQL ${Math.floor(plan.serverVersion / 10_000)}`;
  const file = `file ${plan.schemaHash.slice(0, 8)} ← ${from}`;
  const lines = [paint('bold', `svc migrate plan   ${options.database}   ${server}   ${file}`), ''];
  if (plan.foreign.length > 0) lines.push(`  ${paint('bold', 'first, by the role of SVC_DATABASE_URL')}`);
  for (const one of plan.foreign) lines.push(`    ${paint('yellow', '~')} ${describeTransfer(one)}`);
  for (const [group, steps] of groupBy(plan.steps, stepGroup)) {
    const place = options.locate(group);
    lines.push(`  ${paint('bold', group)}${place === null ? '' : `  ${paint('dim', place)}`}`);
    for (const step of steps) lines.push(`    ${renderStep(step, paint)}`);
  }
  if (plan.steps.length + plan.foreign.length === 0)
    lines.push('  nothing to do: the database matches the file');
  for (const note of plan.notes) lines.push(`  ${paint('dim', `note: ${note}`)}`);
  for (const hint of renderProblems(plan.hints)) lines.push(paint('yellow', indent(hint)));
  for (const one of renderProblems(plan.problems)) lines.push(paint('red', indent(one)));
  lines.push('', summary(plan));
  if (plan.steps.length > 0) lines.push(onFailure(plan));
  return lines.join('\n');
}

/** Column width of summaries. The text after a longer summary is not aligned. */
const SUMMARY_WIDTH = 56;

const SIGNS = { '+': 'green', '~': 'yellow', '-': 'red' } as const;

function renderStep(step: Step, paint: Paint): string {
  const time =
    step.estimateMs >= 1_000 ? `≈ ${(step.estimateMs / 1_000).toFixed(1)} s` : `${step.estimateMs} ms`;
  const facts = [
    step.lane === 'metadata' ? null : LANE_TEXTS[step.lane],
    lockText(step),
    step.rewrites ? 'rewrites the table' : null,
    step.scans ? 'reads every row' : null,
    time,
    ...step.hazards.map((hazard) => HAZARD_TEXTS[hazard]),
  ].filter((fact) => fact !== null);
  const text = inOneLine(step.summary);
  const gap = text.length > SUMMARY_WIDTH ? ' · ' : ' '.repeat(SUMMARY_WIDTH + 1 - text.length);
  return `${paint(SIGNS[step.sign], step.sign)} ${text}${gap}${paint('dim', facts.join(' · '))}`;
}

function lockText(step: Step): string | null {
  if (step.lock === 'none') return null;
  // The group shows its own table, so list the tables only if the step locks others as well.
  return step.otherTables.length === 0 ? step.lock : `${step.lock} on ${lockedTables(step).join(', ')}`;
}

function stepGroup({ identity }: Step): string {
  if (!/^(tables\.|rpc\.|storage\.|realtime\.)/.test(identity)) return identity;
  return identity.split(/\.(?:fields|indexes|rls|ref|realtime)(?=[.[]|$)/)[0] ?? identity;
}

function summary(plan: MigrationPlan): string {
  const count = (lane: Step['lane']): number => plan.steps.filter((step) => step.lane === lane).length;
  const blocking = plan.steps.filter((step) => step.lane === 'metadata');
  const ms = lockMs(blocking);
  const parts = [
    count('values') > 0 ? `${count('values')} before all others` : null,
    `${blocking.length} ${blocking.length === 1 ? 'statement' : 'statements'} in one transaction, ` +
      `locks for about ${ms} ms`,
    count('online') + count('concurrent') > 0 ? `${count('online') + count('concurrent')} online` : null,
    count('shadow') + count('background') > 0
      ? `${count('shadow') + count('background')} in the background`
      : null,
    count('cutover') > 0 ? `${count('cutover')} in a second transaction after them` : null,
    `${plan.problems.length} ${plan.problems.length === 1 ? 'refusal' : 'refusals'}`,
  ];
  return parts.filter((part) => part !== null).join(' · ');
}

function onFailure({ steps }: MigrationPlan): string {
  const isLong = steps.some(({ lane }) => isAfterMetadata(lane));
  const more = isLong
    ? ' If a later step fails, the transaction stays applied and the next run continues with that step.'
    : '';
  return `If a statement of the transaction fails, the transaction is rolled back.${more}`;
}

function indent(text: string): string {
  return text
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');
}

/** Renders the complete SQL, including transactions and timeouts. */
export function renderSql(plan: MigrationPlan, lockTimeoutMs: number): string {
  const lines = plan.foreign.map((object) => `${object.sql};`);
  for (const lane of LANES) {
    const steps = plan.steps.filter((step) => step.lane === lane);
    const isOne = lane === 'metadata' || lane === 'cutover';
    if (steps.length === 0) continue;
    if (isOne) {
      lines.push(
        'begin;',
        `set local lock_timeout = ${lockTimeoutMs};`,
        `set local search_path = ${plan.searchPath};`,
        "set local timezone = 'UTC';",
        'set local check_function_bodies = off;',
      );
    }
    for (const step of steps) lines.push(...(isOne ? [] : [`-- ${LANE_TEXTS[lane]}`]), `${step.sql};`);
    if (isOne) lines.push('commit;');
  }
  return lines.join('\n');
}

export type PlanArtifact = {
  readonly format: 1;
  readonly server: number;
  /** Fingerprint of the catalog for which the plan was made. `apply` refuses the plan if the catalog has changed. */
  readonly stamp: string;
  readonly from: string | null;
  readonly to: string;
  readonly fingerprint: string;
  /** Statements that a role with the necessary rights must run first. */
  readonly ownership: readonly string[];
  readonly steps: ReadonlyArray<{
    readonly sql: string;
    readonly lane: string;
    readonly identity: string;
    readonly place: string | null;
    readonly lock: string;
    /** Tables that the step locks. */
    readonly tables: readonly string[];
    readonly rewrites: boolean;
    readonly scans: boolean;
    readonly estimateMs: number;
    readonly hazards: readonly Hazard[];
  }>;
  readonly problems: MigrationPlan['problems'];
};

export function toArtifact(plan: MigrationPlan, locate: RenderOptions['locate']): PlanArtifact {
  return {
    format: 1,
    server: plan.serverVersion,
    stamp: plan.catalogFingerprint,
    from: plan.parentHash,
    to: plan.schemaHash,
    fingerprint: planFingerprint(plan),
    ownership: plan.foreign.map((object) => object.sql),
    steps: plan.steps.map((step) => ({
      sql: step.sql,
      lane: step.lane,
      identity: step.identity,
      place: locate(step.at),
      lock: step.lock,
      tables: lockedTables(step),
      rewrites: step.rewrites,
      scans: step.scans,
      estimateMs: step.estimateMs,
      hazards: step.hazards,
    })),
    problems: plan.problems,
  };
}

/** Returns a hash of the statements, the file and the catalog for which they were planned. */
export function planFingerprint(plan: MigrationPlan): string {
  return shortHash(
    JSON.stringify([plan.catalogFingerprint, plan.schemaHash, plan.steps.map((step) => step.sql)]),
    16,
  );
}
