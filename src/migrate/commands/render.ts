// A plan for people, as SQL to run with another tool, and as JSON for machines.
import { groupBy } from '../../lib/group-by.ts';
import { shortHash } from '../schema/label.ts';
import type { MigrationPlan } from '../make-plan.ts';
import { renderProblems } from '../problem.ts';
import { LANES, type Hazard, type Step } from '../plan/step.ts';

export type Paint = (style: 'red' | 'green' | 'yellow' | 'cyan' | 'dim' | 'bold', text: string) => string;

export type RenderOptions = {
  readonly paint: Paint;
  readonly locate: (path: string) => string | null;
  /** `app@db.internal/app`. */
  readonly database: string;
};

/** A step in one line without formatting. */
export function stepLine({ sign, at, summary }: Pick<Step, 'sign' | 'at' | 'summary'>): string {
  return `${sign} ${at}: ${inOneLine(summary)}`;
}

/** Expressions of a file may stand on several lines; the normaliser puts even short ones in parentheses of their own. */
const inOneLine = (text: string): string =>
  text.replace(/\s+/g, ' ').replaceAll('( ', '(').replaceAll(' )', ')');

export function renderPlan(plan: MigrationPlan, options: RenderOptions): string {
  const { paint } = options;
  const from = plan.parentHash === null ? 'an empty history' : plan.parentHash.slice(0, 8);
  const head = `svc migrate plan   ${options.database}   PostgreSQL ${Math.floor(plan.serverVersion / 10_000)}   file ${plan.schemaHash.slice(0, 8)} ← ${from}`;
  const lines = [paint('bold', head), ''];
  if (plan.foreign.length > 0) lines.push(`  ${paint('bold', 'ownership')}`);
  for (const { what, name, owner } of plan.foreign)
    lines.push(`    ${paint('yellow', '~')} ${what} ${name}: taken from ${owner}`);
  for (const [group, steps] of groupBy(plan.steps, groupOf)) {
    const place = options.locate(group);
    lines.push(`  ${paint('bold', group)}${place === null ? '' : `  ${paint('dim', place)}`}`);
    for (const step of steps) lines.push(`    ${renderStep(step, paint)}`);
  }
  if (plan.steps.length + plan.foreign.length === 0)
    lines.push('  nothing to do: the database is what the file says');
  for (const note of plan.notes) lines.push(`  ${paint('dim', `note: ${note}`)}`);
  for (const hint of renderProblems(plan.hints)) lines.push(paint('yellow', indent(hint)));
  for (const one of renderProblems(plan.problems)) lines.push(paint('red', indent(one)));
  lines.push('', summary(plan));
  return lines.join('\n');
}

const SIGNS = { '+': 'green', '~': 'yellow', '-': 'red' } as const;

function renderStep(step: Step, paint: Paint): string {
  const time =
    step.estimateMs >= 1_000 ? `≈ ${(step.estimateMs / 1_000).toFixed(1)} s` : `${step.estimateMs} ms`;
  const facts = [
    step.lane === 'metadata' ? null : step.lane,
    step.lock === 'none' ? null : step.lock,
    step.rewrites ? 'rewrites the table' : null,
    step.scans ? 'reads every row' : null,
    time,
    ...step.hazards.filter((hazard) => hazard !== 'NON_TX'),
  ].filter((fact) => fact !== null);
  const text = inOneLine(step.summary);
  return `${paint(SIGNS[step.sign], step.sign)} ${text.padEnd(56)} ${paint('dim', facts.join(' · '))}`;
}

function groupOf({ identity }: Step): string {
  if (!/^(tables\.|rpc\.|storage\.|realtime\.)/.test(identity)) return identity;
  return identity.split(/\.(?:fields|indexes|rls|ref|realtime)(?=[.[]|$)/)[0] ?? identity;
}

function summary(plan: MigrationPlan): string {
  const count = (lane: Step['lane']): number => plan.steps.filter((step) => step.lane === lane).length;
  const blocking = plan.steps.filter((step) => step.lane === 'metadata');
  const ms = blocking.reduce((sum, step) => sum + (step.lock === 'AccessExclusive' ? step.estimateMs : 0), 0);
  const parts = [
    count('values') > 0 ? `${count('values')} before all others` : null,
    `${blocking.length} ${blocking.length === 1 ? 'statement' : 'statements'} in one transaction, locks for about ${ms} ms`,
    count('online') + count('concurrent') > 0 ? `${count('online') + count('concurrent')} online` : null,
    count('shadow') + count('background') > 0
      ? `${count('shadow') + count('background')} in the background`
      : null,
    count('cutover') > 0 ? `${count('cutover')} in one more transaction when these are ready` : null,
    `${plan.problems.length} ${plan.problems.length === 1 ? 'refusal' : 'refusals'}`,
  ];
  return parts.filter((part) => part !== null).join(' · ');
}

function indent(text: string): string {
  return text
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');
}

/** Complete: transactions and timeouts are statements, too. */
export function renderSql(plan: MigrationPlan, lockTimeoutMs: number): string {
  const lines = plan.foreign.map((one) => `${one.sql};`);
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
    for (const step of steps) lines.push(...(isOne ? [] : [`-- ${lane}`]), `${step.sql};`);
    if (isOne) lines.push('commit;');
  }
  return lines.join('\n');
}

export type PlanArtifact = {
  readonly format: 1;
  readonly server: number;
  /** Fingerprint of the catalog it was made for; `apply` refuses another one. */
  readonly stamp: string;
  readonly from: string | null;
  readonly to: string;
  readonly fingerprint: string;
  /** Statements that come first, by a role that may. */
  readonly ownership: readonly string[];
  readonly steps: ReadonlyArray<{
    readonly sql: string;
    readonly lane: string;
    readonly identity: string;
    readonly place: string | null;
    readonly lock: string;
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
    ownership: plan.foreign.map((one) => one.sql),
    steps: plan.steps.map((step) => ({
      sql: step.sql,
      lane: step.lane,
      identity: step.identity,
      place: locate(step.at),
      lock: step.lock,
      rewrites: step.rewrites,
      scans: step.scans,
      estimateMs: step.estimateMs,
      hazards: step.hazards,
    })),
    problems: plan.problems,
  };
}

/** Covers the statements and the catalog they were planned for. */
export function planFingerprint(plan: MigrationPlan): string {
  return shortHash(
    JSON.stringify([plan.catalogFingerprint, plan.schemaHash, plan.steps.map((step) => step.sql)]),
    16,
  );
}
