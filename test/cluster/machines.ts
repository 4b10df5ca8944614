// The machines of the rig, each a network namespace: commands on them, and ways to break the network between them.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { openSync, closeSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Same values as in common.sh. */
const LAST_BYTE = {
  etcd: 10,
  pg1: 11,
  pg2: 12,
  pg3: 13,
  lb: 20,
  app1: 31,
  app2: 32,
  app3: 33,
  load: 100,
} as const;

export type Machine = keyof typeof LAST_BYTE;
export type DatabaseMachine = 'pg1' | 'pg2' | 'pg3';
export type AppMachine = 'app1' | 'app2' | 'app3';
export const MACHINES = Object.keys(LAST_BYTE) as readonly Machine[];
export const DATABASE_MACHINES: readonly DatabaseMachine[] = ['pg1', 'pg2', 'pg3'];
export const APP_MACHINES: readonly AppMachine[] = ['app1', 'app2', 'app3'];

export const RIG = process.env['SVC_CLUSTER_DIR'] ?? '/tmp/svc-cluster';
const NETWORK = 'svct-net';
/** An address without a host: packets to it are never answered. */
const NO_HOST = '02:00:00:00:00:99';

export const machineAddress = (machine: Machine): string => `10.86.0.${LAST_BYTE[machine]}`;
const space = (machine: Machine): string => `svct-${machine}`;

function ip(...args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync('ip', args, { encoding: 'utf8' });
  if (status !== 0) throw new Error(`ip ${args.join(' ')}: ${stderr.trim()}`);
  return stdout;
}

/** Starts a program on a machine, with its output in a file. The process keeps its id. */
export function spawnOn(
  machine: Machine,
  command: readonly string[],
  options: { readonly output: string; readonly env?: Readonly<Record<string, string | undefined>> },
): ChildProcess {
  const output = openSync(options.output, 'a');
  try {
    return spawn('ip', ['netns', 'exec', space(machine), ...command], {
      stdio: ['ignore', output, output],
      env: options.env ?? process.env,
    });
  } finally {
    closeSync(output);
  }
}

/** Ids of the processes on a machine; empty if the machine does not exist. */
export function processesOn(machine: Machine): readonly string[] {
  const { stdout } = spawnSync('ip', ['netns', 'pids', space(machine)], { encoding: 'utf8' });
  return stdout.split('\n').filter(Boolean);
}

/** kill -9 of everything that runs on a machine. */
export function killAllOn(machine: Machine): void {
  for (const pid of processesOn(machine)) {
    try {
      process.kill(Number(pid), 'SIGKILL');
    } catch {
      // Its parent went first and took it along.
    }
  }
}

/** Disconnects a machine silently: connections to it are neither refused nor answered. */
export function silence(machine: Machine): void {
  for (const other of MACHINES) if (other !== machine) forget(other, machine);
  ip('-n', NETWORK, 'link', 'set', machine, 'down');
}

/** Cuts the link between two machines. Both still reach all others. */
export function cut(first: Machine, second: Machine): void {
  forget(first, second);
  forget(second, first);
}

/** Undoes all of the above. */
export function healNetwork(): void {
  for (const machine of MACHINES) {
    ip('-n', NETWORK, 'link', 'set', machine, 'up');
    ip('-n', space(machine), 'neighbour', 'flush', 'nud', 'permanent', 'dev', 'eth0');
  }
}

function forget(at: Machine, target: Machine): void {
  const entry = [machineAddress(target), 'lladdr', NO_HOST, 'dev', 'eth0', 'nud', 'permanent'];
  ip('-n', space(at), 'neighbour', 'replace', ...entry);
}

/** Moves the name `primary.db`, as an administrator moves a name in DNS. */
export function moveName(to: Machine): void {
  for (const machine of MACHINES) {
    // Writes in place, because the file is bound over /etc/hosts of running processes.
    writeFileSync(
      join('/etc/netns', space(machine), 'hosts'),
      `127.0.0.1 localhost\n${machineAddress(to)} primary.db\n`,
    );
  }
}
