#!/usr/bin/env node
// `npm create svcyaml [directory]`: copies a template and installs its dependencies with npm.
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const HERE = dirname(fileURLToPath(import.meta.url));
const TEMPLATES = readdirSync(join(HERE, 'templates'));
const USAGE = `npm create svcyaml [directory] -- [--template ${TEMPLATES.join('|')}] [--no-install] [--force] [--yes]`;
const EXIT_USAGE = 2;

const { version } = JSON.parse(readFileSync(join(HERE, 'package.json'), 'utf8'));

function fail(message, hint) {
  process.stderr.write(`${message}\n  → ${hint}\n`);
  process.exit(EXIT_USAGE);
}

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        template: { type: 'string' },
        'no-install': { type: 'boolean', default: false },
        force: { type: 'boolean', default: false },
        yes: { type: 'boolean', short: 'y', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    return fail(error.message, USAGE);
  }
}

const { values, positionals } = readArguments();
if (values.help) {
  process.stdout.write(`${USAGE}\n`);
  process.exit(0);
}

let [directory] = positionals;
let { template } = values;
if (!values.yes && process.stdin.isTTY) {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  directory ??= (await terminal.question('Directory (my-app): ')).trim() || 'my-app';
  template ??= (await terminal.question(`Template: ${TEMPLATES.join(', ')} (react): `)).trim() || 'react';
  terminal.close();
}
directory ??= 'my-app';
template ??= 'react';
if (!TEMPLATES.includes(template))
  fail(`there is no template ${template}`, `The templates: ${TEMPLATES.join(', ')}.`);

const target = resolve(directory);
if (!values.force && existsSync(target) && readdirSync(target).length > 0)
  fail(
    `${target} is not empty`,
    'Choose another directory, or add --force: files that are there stay as they are.',
  );

const kept = [];
/** npm excludes .gitignore from packages, so the file has another name in the template. */
const targetName = (name) =>
  name === '_gitignore' ? '.gitignore' : name === '_package.json' ? 'package.json' : name;

function copy(from, to) {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, file] = [join(from, entry.name), join(to, targetName(entry.name))];
    if (entry.isDirectory()) copy(source, file);
    else if (existsSync(file)) kept.push(relative(target, file));
    else if (entry.name === '_package.json') writeFileSync(file, manifest(readFileSync(source, 'utf8')));
    else copyFileSync(source, file);
  }
}

function manifest(text) {
  const name =
    basename(target)
      .toLowerCase()
      .replaceAll(/[^a-z0-9._-]+/g, '-')
      .replace(/^[._-]+/, '') || 'my-app';
  return useLocalPackages(text.replaceAll('{{name}}', name).replaceAll('{{version}}', version));
}

/**
 * `npm run release` in a clone creates tarballs next to this folder. A project then uses these instead of the
 * registry.
 */
function useLocalPackages(text) {
  const tarball = (part) => resolve(HERE, '..', `${part}-${version}.tgz`);
  if (!existsSync(tarball('svcyaml'))) return text;
  const { dependencies, devDependencies, ...rest } = JSON.parse(text);
  const tarballUrl = (part) => `file:${tarball(part)}`;
  const made = {
    ...rest,
    dependencies: { ...dependencies, svcyaml: tarballUrl('svcyaml') },
    // svcyaml depends on this package, and would install it from the registry.
    optionalDependencies: { '@svcyaml/node': tarballUrl('svcyaml-node') },
    devDependencies: { ...devDependencies, '@svcyaml/postgres': tarballUrl('svcyaml-postgres') },
  };
  return `${JSON.stringify(made, null, 2)}\n`;
}

copy(join(HERE, 'templates', template), target);
for (const file of kept) process.stdout.write(`kept ${file} as it was\n`);

if (!values['no-install']) {
  const isWindows = process.platform === 'win32';
  // Browser libraries may require a newer Node than the local one. They run in the browser, so hide the warning.
  const args = ['install', '--no-audit', '--no-fund', '--loglevel=error'];
  const { status } = spawnSync(isWindows ? 'npm.cmd' : 'npm', args, {
    cwd: target,
    stdio: 'inherit',
    shell: isWindows,
  });
  if (status !== 0) fail('npm install failed', `Run it again in ${target}; the files are there.`);
}

const place = relative(process.cwd(), target);
const steps = [
  ...(place === '' ? [] : [`cd ${place}`]),
  ...(values['no-install'] ? ['npm install'] : []),
  'npm run dev',
];
process.stdout.write(`\nReady. Next:\n\n${steps.map((step) => `  ${step}\n`).join('')}`);
