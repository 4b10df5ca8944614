// `npm run test:cluster [names…]`: builds the rig, runs the scenarios on the users' machine, takes the rig down, and
// ends with a line of counts. A rig that is up already is used and left; the ruins of one are cleared away first.
//
//   npm run test:cluster                        the usual sizes
//   npm run test:cluster -- --full switchover   one scenario, in full size
//   npm run test:cluster -- --list              list the scenarios
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { closingLine, writeReport, type Failure } from '../support/run/report.ts';
import { restoreCluster } from './database.ts';
import { DATABASE_MACHINES, processesOn, RIG } from './machines.ts';
import { missing } from './requirements.ts';
import { Stage, type Scenario } from './scenario.ts';
import { seconds } from './until.ts';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const MISUSE = 2;
const runStartedAt = performance.now();

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    full: { type: 'boolean', default: false },
    list: { type: 'boolean', default: false },
    /** Checks the requirements. If one is missing, reports it and counts everything as skipped. */
    optional: { type: 'boolean', default: false },
    'on-the-rig': { type: 'boolean', default: false },
  },
});

const print = (line: string): void => void process.stdout.write(`${line}\n`);

process.exitCode = await main();

async function main(): Promise<number> {
  const all = await scenarios();
  if (values.list) {
    for (const { name, about } of all) print(`${name.padEnd(22)} ${about}`);
    return 0;
  }
  const unknown = positionals.filter((name) => !all.some((scenario) => scenario.name === name));
  if (unknown.length > 0) {
    print(`There is no scenario ${unknown.join(', ')}. There are: ${all.map(({ name }) => name).join(', ')}`);
    return MISUSE;
  }
  const chosen = all.filter(({ name, onlyFull }) =>
    positionals.length > 0 ? positionals.includes(name) : values.full || onlyFull !== true,
  );
  if (values['on-the-rig']) return await run(chosen);
  const without = missing();
  if (without !== undefined) {
    print(`The cluster cannot be built: ${without}`);
    if (!values.optional) return MISUSE;
    report({ passed: 0, skipped: chosen.length, failures: [] });
    return 0;
  }
  return onTheRig();
}

/** Each file has one. */
async function scenarios(): Promise<readonly Scenario[]> {
  const files = readdirSync(`${HERE}scenarios`)
    .filter((name) => name.endsWith('.cluster.test.ts'))
    .sort();
  return await Promise.all(
    files.map(async (file) => ((await import(`./scenarios/${file}`)) as { scenario: Scenario }).scenario),
  );
}

/** The same program once more, on the users' machine. */
function onTheRig(): number {
  const isUp = partsRun();
  const script = (name: string): number | null => spawnSync(`${HERE}${name}`, { stdio: 'inherit' }).status;
  if (!isUp && (script('down.sh') !== 0 || script('up.sh') !== 0)) {
    report({ passed: 0, skipped: 0, failures: [failure('rig', 'it did not start')] });
    return 1;
  }
  // The child receives the interrupt of the terminal as well and ends. Then the rig is stopped.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => undefined);
  try {
    const again = [
      process.execPath,
      fileURLToPath(import.meta.url),
      '--on-the-rig',
      ...process.argv.slice(2),
    ];
    return spawnSync('ip', ['netns', 'exec', 'svct-load', ...again], { stdio: 'inherit' }).status ?? 1;
  } finally {
    if (!isUp) script('down.sh');
  }
}

/** Removes the folder and the namespaces that a killed rig has left. */
function partsRun(): boolean {
  if (!existsSync(`${RIG}/pid`)) return false;
  const running = new Set((['etcd', ...DATABASE_MACHINES, 'lb'] as const).flatMap(processesOn));
  return readdirSync(`${RIG}/pid`).every((part) =>
    running.has(readFileSync(`${RIG}/pid/${part}`, 'utf8').trim()),
  );
}

async function run(chosen: readonly Scenario[]): Promise<number> {
  const count = { passed: 0, skipped: 0, failures: [] as Failure[] };
  // The first primary is random, but the name points to the first machine.
  await restoreCluster();
  for (const scenario of chosen) {
    print(`\n${scenario.name}: ${scenario.about}`);
    const startedAt = Date.now();
    const claims = await perform(scenario);
    if (claims.length === 0) count.passed += 1;
    else count.failures.push(failure(scenario.name, claims.join('; ')));
    print(`  ${claims.length === 0 ? 'passed' : 'FAILED'} (${seconds(Date.now() - startedAt)})`);
  }
  report(count);
  return count.failures.length > 0 ? 1 : 0;
}

/** Returns the claims that did not hold. */
async function perform(scenario: Scenario): Promise<readonly string[]> {
  const stage = new Stage(scenario.name, values.full, print);
  try {
    await stage.freshDatabase();
    await scenario.run(stage);
  } catch (error) {
    print(`  ✗ ${error instanceof Error ? error.stack : String(error)}`);
    stage.broken.push(error instanceof Error ? error.message.split('\n')[0]! : String(error));
  }
  try {
    await stage.close();
    await restoreCluster();
    await stage.tidy();
  } catch (error) {
    stage.broken.push(`the rig was not whole again: ${String(error)}`);
  }
  return stage.broken;
}

function failure(name: string, message: string): Failure {
  return { project: 'cluster', file: undefined, name, message };
}

/** Writes the report of this run and prints its closing line. */
function report(count: { passed: number; skipped: number; failures: readonly Failure[] }): void {
  const failed = count.failures.length;
  writeReport({ ...count, failed, ms: Math.round(performance.now() - runStartedAt), files: [] });
  for (const { name, message } of count.failures) print(`FAILED ${name}: ${message}`);
  print(`\n${closingLine({ ...count, failed })}`);
}
