// `svc schedules`: lists schedules and their runs, starts a run, pauses and resumes.
import { Command, Option } from 'commander';
import { z } from 'zod';
import type { Config, Schedule } from '../../config/config.ts';
import { closest } from '../../lib/text/closest-word.ts';
import { createTables, hasTables } from '../../deliveries/tables.ts';
import {
  listRuns,
  listSchedules,
  runNow,
  setPaused,
  type ScheduleRun,
} from '../../deliveries/schedules/schedule-rows.ts';
import { describeTiming } from '../../deliveries/schedules/timing.ts';
import type { OwnerDatabase } from '../../postgres/owner-database.ts';
import { EXIT, failure } from '../exit.ts';
import { withOwner } from '../migrate/database.ts';
import { modeOption, type ModeOption } from '../project/mode-option.ts';
import { loadProject } from '../project/project.ts';
import { reporting } from '../report/reporting.ts';
import type { Terminal } from '../terminal.ts';

const LISTED = z.strictObject({
  schedules: z.array(
    z.strictObject({
      name: z.string(),
      times: z.string(),
      target: z.string(),
      state: z.enum(['active', 'paused', 'disabled', 'unknown']).describe('unknown: no server has run yet'),
      next_at: z.string().nullable(),
      last_at: z.string().nullable(),
      last_state: z.string().nullable().describe('state of the latest run'),
    }),
  ),
});

const STARTED = z.strictObject({ name: z.string(), delivery: z.string() });
const CHANGED = z.strictObject({ name: z.string(), paused: z.boolean(), changed: z.boolean() });

const RUNS = z.strictObject({
  name: z.string(),
  runs: z.array(
    z.strictObject({
      delivery: z.string(),
      event_id: z.string(),
      scheduled_for: z.string(),
      state: z.enum(['waiting', 'running', 'done', 'dead', 'skipped']),
      reason: z.string().nullable().describe('latest error, or why the run was left out'),
      attempts: z.array(
        z.strictObject({
          attempt: z.int(),
          started_at: z.string(),
          ms: z.int().nullable(),
          outcome: z.enum(['done', 'failed', 'rejected', 'lost']),
          status: z.int().nullable(),
          error: z.string().nullable(),
          request_id: z.string().nullable(),
        }),
      ),
    }),
  ),
});

type Options = ModeOption & { config?: string };

export function schedulesCommand(terminal: Terminal): Command {
  const group = new Command('schedules').description('list, run, pause and resume schedules');
  const add = (name: string, description: string): Command =>
    group
      .command(name)
      .description(description)
      .option('-c, --config <file>', 'the configuration file')
      .addOption(modeOption('development'));
  reporting(
    add('list', 'list the schedules with their next and last times'),
    terminal,
    LISTED,
    async (out, options: Options) => ({ data: { schedules: await list(out, options) } }),
  );
  reporting(
    add('run', 'run a schedule now; a running service does the work').argument('<name>', 'the schedule'),
    terminal,
    STARTED,
    async (out, name: string, options: Options) => {
      const delivery = await inDatabase(out, options, async (owner, config) => {
        const schedule = find(config, name);
        await requireTables(owner);
        return await runNow(owner, schedule);
      });
      out.print(`${name} is due now. See its result: svc schedules runs ${name}`);
      return { data: { name, delivery } };
    },
  );
  for (const paused of [true, false]) {
    const word = paused ? 'pause' : 'resume';
    const description = paused
      ? 'stop running a schedule, until it is resumed'
      : 'run a paused schedule again, from now on';
    reporting(
      add(word, description).argument('<name>', 'the schedule'),
      terminal,
      CHANGED,
      async (out, name: string, options: Options) => {
        const changed = await inDatabase(out, options, async (owner, config) => {
          find(config, name);
          await requireTables(owner);
          return await setPaused(owner, name, paused);
        });
        out.print(`${name} ${changed ? 'is' : 'was already'} ${paused ? 'paused' : 'active'}`);
        return { data: { name, paused, changed } };
      },
    );
  }
  reporting(
    add('runs', 'list the latest runs of a schedule with their errors')
      .argument('<name>', 'the schedule')
      .addOption(new Option('--limit <count>', 'maximum number of runs').argParser(readLimit).default(20)),
    terminal,
    RUNS,
    async (out, name: string, options: Options & { limit: number }) => {
      const runs = await inDatabase(out, options, async (owner) =>
        (await hasTables(owner)) ? await listRuns(owner, name, options.limit) : [],
      );
      out.print(runs.length === 0 ? `${name} has not run yet` : runs.flatMap(describeRun).join('\n'));
      return {
        data: {
          name,
          runs: runs.map(({ at, ...run }) => ({ ...run, scheduled_for: at.toISOString() })) as z.input<
            typeof RUNS
          >['runs'],
        },
      };
    },
  );
  return group;
}

async function list(out: Terminal, options: Options): Promise<z.infer<typeof LISTED>['schedules']> {
  const schedules = await inDatabase(out, options, async (owner, config) => {
    const rows = (await hasTables(owner)) ? await listSchedules(owner) : [];
    return config.schedules.map((schedule) => {
      const row = rows.find(({ name }) => name === schedule.name);
      const state = !schedule.enabled
        ? ('disabled' as const)
        : row === undefined
          ? ('unknown' as const)
          : row.paused
            ? ('paused' as const)
            : ('active' as const);
      return {
        name: schedule.name,
        times: describeTiming(schedule),
        target: describeTarget(schedule),
        state,
        next_at: (schedule.enabled && row?.next_at?.toISOString()) || null,
        last_at: row?.last_at?.toISOString() ?? null,
        last_state: row?.state ?? null,
      };
    });
  });
  if (schedules.length === 0)
    out.print('No schedules are declared. Declare them under schedules in svc.yaml.');
  for (const { name, times, target, state, next_at, last_at, last_state } of schedules) {
    const next = state === 'active' ? `next ${next_at ?? 'unknown'}` : state;
    const last = last_at === null ? 'has not run yet' : `last ${last_at} ${last_state ?? ''}`.trim();
    out.print(`${name}: ${times}, ${target}, ${next}, ${last}`);
  }
  return schedules;
}

function describeTarget(schedule: Schedule): string {
  return schedule.function === undefined ? `rpc ${schedule.rpc}` : `function ${schedule.function}`;
}

function describeRun({ delivery, at, state, reason, attempts }: ScheduleRun): string[] {
  return [
    `${at.toISOString()} ${state}${state === 'skipped' && reason !== null ? ` (${reason})` : ''}, delivery ${delivery}`,
    ...attempts.map(({ attempt, ms, outcome, status, error, request_id }) =>
      [
        `  attempt ${attempt}: ${outcome}`,
        ms === null ? '' : `after ${ms} ms`,
        status === null ? '' : `status ${status}`,
        request_id === null ? '' : `request ${request_id}`,
        error === null ? '' : `\n    ${error.replaceAll('\n', '\n    ')}`,
      ]
        .filter((part) => part !== '')
        .join(' '),
    ),
  ];
}

function readLimit(text: string): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1 && limit <= 1_000) return limit;
  throw failure(EXIT.misuse, `--limit is ${JSON.stringify(text)}`, 'It is a whole number from 1 to 1000.');
}

function find({ schedules }: Config, name: string): Schedule {
  const found = schedules.find((schedule) => schedule.name === name);
  if (found) return found;
  const names = schedules.map((schedule) => schedule.name);
  const near = closest(name, names);
  throw failure(
    EXIT.misuse,
    `there is no schedule ${name}`,
    near === undefined ? 'svc schedules list shows the schedules of the file.' : `Did you mean ${near}?`,
  );
}

async function requireTables(owner: OwnerDatabase): Promise<void> {
  if (!(await createTables(owner)))
    throw failure(EXIT.problem, 'another process is creating the tables of schedules', 'Try again.');
}

async function inDatabase<T>(
  out: Terminal,
  options: Options,
  work: (owner: OwnerDatabase, config: Config) => Promise<T>,
): Promise<T> {
  const { config, env, directory } = await loadProject(
    { ...options, mode: options.mode ?? 'development' },
    out,
  );
  return await withOwner(env, directory, { applicationName: 'svc-schedules', max: 1 }, (owner) =>
    work(owner, config),
  );
}
