// The environment of a scenario: a folder, a database, instances that end with it, and claims about what it observed.
// All claims are evaluated, so that one report lists everything that is wrong.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createDatabase, databaseUrl, query, type Way } from './database.ts';
import { startInstance, type Instance, type InstanceOptions } from './instance.ts';
import { Load, type LoadOptions } from './load.ts';
import { machineAddress, APP_MACHINES, RIG } from './machines.ts';
import { until } from './until.ts';

export type Scenario = {
  readonly name: string;
  /** Description of the scenario, in one line. */
  readonly about: string;
  /** Left out of the usual run: `--full`, or its name. */
  readonly onlyFull?: boolean;
  readonly run: (stage: Stage) => Promise<void>;
};

/** Settings of the two balancers in front of svc. */
export const PLAIN = `http://${machineAddress('lb')}:8080`;
export const RETRYING = `http://${machineAddress('lb')}:8081`;

export class Stage {
  readonly full: boolean;
  readonly folder: string;
  readonly database: string;
  readonly broken: string[] = [];
  readonly #instances: Instance[] = [];
  readonly #loads: Load[] = [];
  readonly #afterwards: Array<() => Promise<void> | void> = [];
  readonly #print: (line: string) => void;

  constructor(name: string, full: boolean, print: (line: string) => void) {
    this.full = full;
    this.database = `rig_${name.replaceAll('-', '_')}`;
    this.folder = join(RIG, 'run', name);
    this.#print = print;
    mkdirSync(this.folder, { recursive: true });
  }

  /** A figure for the report. */
  note(text: string): void {
    this.#print(`    ${text}`);
  }

  /** A claim; the scenario fails when one does not hold. */
  claim(text: string, holds: boolean, seen?: string): void {
    this.#print(`  ${holds ? '✓' : '✗'} ${text}${seen === undefined || seen === '' ? '' : `: ${seen}`}`);
    if (!holds) this.broken.push(text);
  }

  /** `few` in the usual run, `many` with --full. */
  size(few: number, many: number): number {
    return this.full ? many : few;
  }

  /** Writes svc.yaml into the folder. */
  config(tables: string, rest = '', name = 'svc.yaml'): string {
    const file = join(this.folder, name);
    writeFileSync(file, `version: 1\nproject: { name: rig }\n${rest}tables:${tables}`);
    return file;
  }

  url(way: Way = 'balancer', parameters = ''): string {
    return databaseUrl(this.database, way, parameters);
  }

  async freshDatabase(): Promise<void> {
    await createDatabase(this.database);
    this.afterwards(async () => {
      await query('postgres', `drop database if exists "${this.database}" with (force)`);
    });
  }

  start(options: InstanceOptions): Instance {
    const instance = startInstance(options);
    this.#instances.push(instance);
    return instance;
  }

  /** Starts an instance on each machine in parallel. Returns when the balancers see all of them. */
  async startThree(
    options: Omit<InstanceOptions, 'machine'>,
  ): Promise<readonly [Instance, Instance, Instance]> {
    const [one, two, three] = APP_MACHINES;
    const all = [
      this.start({ ...options, machine: one! }),
      this.start({ ...options, machine: two! }),
      this.start({ ...options, machine: three! }),
    ] as const;
    await Promise.all(all.map(async (instance) => await instance.whenReady()));
    await this.untilBalanced();
    return all;
  }

  /** The balancers take a machine in one health check after it is ready. */
  async untilBalanced(): Promise<void> {
    for (const balancer of [PLAIN, RETRYING]) {
      let inARow = 0;
      await until(`all instances behind ${balancer}`, 30_000, async () => {
        const answer = await fetch(`${balancer}/ready`).catch(() => undefined);
        inARow = answer?.ok ? inARow + 1 : 0;
        return inARow >= 15;
      });
    }
  }

  load(options: LoadOptions): Load {
    const load = new Load(options);
    this.#loads.push(load);
    return load;
  }

  afterwards(work: () => Promise<void> | void): void {
    this.#afterwards.push(work);
  }

  async close(): Promise<void> {
    for (const load of this.#loads) void load.stop();
    for (const { child } of this.#instances) child.kill('SIGKILL');
    await Promise.all(this.#instances.map(async (instance) => await instance.exit()));
  }

  /** After the cluster is whole again. */
  async tidy(): Promise<void> {
    for (const work of this.#afterwards.reverse()) await work();
  }
}
