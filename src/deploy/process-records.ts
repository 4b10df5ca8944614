// Which processes of a receiver run, on disk: a receiver that follows a killed one must find what that one has started.
// A process is known by its id and its start time, because ids are used again.
import { readdirSync } from 'node:fs';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isAlive, readStartTime } from '../embedded-postgres/process-table.ts';
import { ifExists } from '../lib/error-code.ts';
import type { Log } from '../log/log.ts';
import { Problem } from '../problem/problem.ts';

type ProcessRecord = { readonly pid: number; readonly startedAt: string };

const SUFFIX = '.json';
const RECEIVER = 'receiver';
/** A release that is stopped finishes its requests first. A start in progress ends before it listens. */
const PATIENCE_MS = 60_000;
const POLL_MS = 50;

export class ProcessRecords {
  readonly #directory: string;

  private constructor(directory: string) {
    this.#directory = directory;
  }

  /** Refuses a directory that another receiver uses. */
  static async open(directory: string): Promise<ProcessRecords> {
    const records = new ProcessRecords(join(directory, 'processes'));
    await mkdir(records.#directory, { recursive: true, mode: 0o700 });
    const receiver = await records.#read(RECEIVER);
    if (receiver && receiver.pid !== process.pid && (await isRunning(receiver))) {
      throw new Problem(
        'directory_in_use',
        500,
        `Another \`svc receive\` (process ${receiver.pid}) uses ${directory}`,
        {
          hint: 'Stop it, or choose another directory with --dir.',
        },
      );
    }
    await records.add(RECEIVER, process.pid);
    return records;
  }

  async add(name: string, pid: number): Promise<void> {
    const record: ProcessRecord = { pid, startedAt: await readStartTime(pid) };
    const file = this.#recordFile(name);
    await writeFile(`${file}.tmp`, `${JSON.stringify(record)}\n`, { mode: 0o600 });
    await rename(`${file}.tmp`, file);
  }

  async remove(name: string): Promise<void> {
    await rm(this.#recordFile(name), { force: true });
  }

  async close(): Promise<void> {
    await this.remove(RECEIVER);
  }

  /** Ends what a killed receiver has left running, so that nothing runs twice. */
  async endLeftOver(log: Log, patienceMs = PATIENCE_MS): Promise<void> {
    const names = readdirSync(this.#directory)
      .filter((name) => name.endsWith(SUFFIX))
      .map((name) => name.slice(0, -SUFFIX.length));
    await Promise.all(
      names.map(async (name) => {
        if (name === RECEIVER) return;
        const record = await this.#read(name);
        if (record && record.startedAt !== '' && (await isRunning(record))) {
          log.warn(
            { release: name, pid: record.pid },
            'a release of a receiver that was killed still runs; ending it',
          );
          await end(record, patienceMs);
        }
        await this.remove(name);
      }),
    );
  }

  #recordFile(name: string): string {
    return join(this.#directory, name + SUFFIX);
  }

  async #read(name: string): Promise<ProcessRecord | undefined> {
    const text = await ifExists(readFile(this.#recordFile(name), 'utf8'));
    return text === undefined ? undefined : parseRecord(text);
  }
}

async function end(record: ProcessRecord, patienceMs: number): Promise<void> {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    try {
      process.kill(record.pid, signal);
    } catch {
      // The process has ended in the meantime.
      return;
    }
    const until = performance.now() + patienceMs;
    while (performance.now() < until) {
      if (!(await isRunning(record))) return;
      await delay(POLL_MS);
    }
  }
}

async function isRunning({ pid, startedAt }: ProcessRecord): Promise<boolean> {
  return (await isAlive(pid)) && (await readStartTime(pid)) === startedAt;
}

function parseRecord(text: string): ProcessRecord | undefined {
  try {
    const record: unknown = JSON.parse(text);
    if (typeof record !== 'object' || record === null || !('pid' in record) || !('startedAt' in record))
      return undefined;
    const { pid, startedAt } = record;
    return typeof pid === 'number' && typeof startedAt === 'string' ? { pid, startedAt } : undefined;
  } catch {
    // Half written before a crash of the machine: that process is gone too.
    return undefined;
  }
}
