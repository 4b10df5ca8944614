// `npm run release`: writes the packages as they are published, each as a folder and as a tarball. The target is
// release/ or a new folder from the command line. The clone runs from its sources and needs no release.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { rolldown } from 'rolldown';
import { toJsonSchema } from '../src/config/schema/schema.ts';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const OWN_RELEASE = join(ROOT, 'release');
const RELEASE = resolve(process.argv[2] ?? OWN_RELEASE);
const MAIN = join(RELEASE, 'svcyaml');

type Manifest = {
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
};

/** Packages that are not bundled: native modules, and modules that read files from their own folder. */
const SEPARATE = ['@node-rs/argon2', '@node-rs/bcrypt', 'libpg-query'];
const OPTIONAL = ['sharp'];

const own = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Manifest;

if (RELEASE === OWN_RELEASE) rmSync(RELEASE, { recursive: true, force: true });
else if (existsSync(RELEASE)) throw new Error(`${RELEASE} is there already: name a folder that is not`);
const merged = await bundle();
copyFiles();
writeManifest();
writeLicenses(merged);
for (const name of ['node', 'postgres', 'create']) copyPart(name);
for (const name of ['chat', 'documents', 'shop']) makeTemplate(name);
for (const folder of readdirSync(RELEASE)) pack(folder);
writeSums();

/** Returns the folders of the packages that the bundle contains. */
async function bundle(): Promise<ReadonlySet<string>> {
  const build = await rolldown({
    cwd: ROOT,
    platform: 'node',
    input: {
      'functions/package/index': 'src/functions/package/index.ts',
      'cli/main': 'src/cli/main.ts',
      'functions/worker/main': 'src/functions/worker/main.ts',
    },
    external: [...SEPARATE, ...OPTIONAL, 'pg-native'],
    logLevel: 'warn',
  });
  const { output } = await build.write({
    dir: join(MAIN, 'dist'),
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'chunks/[name]-[hash].js',
    // Remove comments, which explain source that the package does not contain. Licence notices stay.
    comments: { legal: true, annotation: true, jsdoc: false },
  });
  const modules = output.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
  return new Set(modules.flatMap((id) => packageFolder(id) ?? []));
}

function packageFolder(id: string): string | undefined {
  const [, folder] = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id) ?? [];
  return folder;
}

function copyFiles(): void {
  const page = join(ROOT, 'dist', 'dashboard');
  if (!existsSync(page)) throw new Error('the dashboard is not built: npm run build');
  const isShipped = (path: string): boolean => !path.endsWith('.map');
  cpSync(page, join(MAIN, 'dist', 'dashboard'), { recursive: true, filter: isShipped });
  cpSync(join(ROOT, 'bin'), join(MAIN, 'bin'), { recursive: true });
  cpSync(join(ROOT, 'docs'), join(MAIN, 'docs'), {
    recursive: true,
    filter: (path) => basename(path) !== 'decisions',
  });
  cpSync(join(ROOT, 'deploy'), join(MAIN, 'deploy'), { recursive: true });
  for (const file of ['LICENSE', 'CHANGELOG.md']) cpSync(join(ROOT, file), join(MAIN, file));
  cpSync(join(ROOT, 'packages', 'svcyaml', 'README.md'), join(MAIN, 'README.md'));
  mkdirSync(join(MAIN, 'schema'));
  writeFileSync(join(MAIN, 'schema', 'svc.schema.json'), `${JSON.stringify(toJsonSchema(), null, 2)}\n`);
  writeFileSync(join(MAIN, 'llms.txt'), renderIndex());
  writeFileSync(join(MAIN, 'llms-full.txt'), renderWhole());
  writeTypes();
}

/** Writes the types of the public entry points only. */
function writeTypes(): void {
  const types = join(MAIN, 'dist', 'types');
  execFileSync('tsc', ['-p', 'tsconfig.package.json', '--outDir', types], { cwd: ROOT, stdio: 'inherit' });
  for (const name of readdirSync(types))
    if (name !== 'package') rmSync(join(types, name), { recursive: true });
}

/** Lists every page with its description, in the order of docs/index.md, for readers that fetch single pages. */
function renderIndex(): string {
  const [, ...lines] = readFileSync(join(MAIN, 'docs', 'index.md'), 'utf8').split('\n');
  return `# svcyaml\n\n> ${own.description}\n${lines.join('\n').replaceAll('](', '](docs/')}`;
}

/** Joins all pages in the same order into one text. */
function renderWhole(): string {
  const index = readFileSync(join(MAIN, 'docs', 'index.md'), 'utf8');
  const pages = [...index.matchAll(/^- \[.+?\]\((.+?)\)/gm)].map(([, page = '']) => page);
  const texts = pages.map(
    (page) => `<!-- docs/${page} -->\n\n${readFileSync(join(MAIN, 'docs', page), 'utf8').trim()}\n`,
  );
  return texts.join('\n');
}

function writeManifest(): void {
  const versions = { ...own.dependencies, ...own.optionalDependencies };
  const pick = (names: readonly string[]): Record<string, string | undefined> =>
    Object.fromEntries(names.map((name) => [name, versions[name]]));
  const manifest = {
    name: 'svcyaml',
    version: own.version,
    description: own.description,
    license: own.license,
    type: 'module',
    bin: { svc: 'bin/svc.js' },
    // Minimum version for the launcher. The launcher finds a newer Node for the product.
    engines: { node: '>=18' },
    exports: {
      '.': { types: './dist/types/package/index.d.ts', default: './dist/functions/package/index.js' },
      './schema.json': './schema/svc.schema.json',
      './package.json': './package.json',
    },
    dependencies: pick(SEPARATE),
    optionalDependencies: { ...pick(OPTIONAL), '@svcyaml/node': own.version },
  };
  writeFileSync(join(MAIN, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
}

type Library = {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  readonly text: string;
};

/** Copies the licences and writes an inventory of the bundled packages, because npm sees none of them. */
function writeLicenses(folders: ReadonlySet<string>): void {
  const libraries = [...folders].map(readLibrary).sort((a, b) => (a.name < b.name ? -1 : 1));
  const texts = libraries.map(
    ({ name, version, license, text }) => `${name} ${version} (${license})\n\n${text.trim()}\n`,
  );
  writeFileSync(join(MAIN, 'THIRD-PARTY-LICENSES'), texts.join(`\n${'-'.repeat(80)}\n\n`));
  const inventory = {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: { component: { type: 'application', name: 'svcyaml', version: own.version } },
    components: libraries.map(({ name, version, license }) => ({
      type: 'library',
      name,
      version,
      purl: `pkg:npm/${name.replace('@', '%40')}@${version}`,
      licenses: [{ license: { id: license } }],
    })),
  };
  writeFileSync(join(MAIN, 'sbom.cdx.json'), `${JSON.stringify(inventory, null, 2)}\n`);
}

function readLibrary(folder: string): Library {
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Partial<
    Record<'name' | 'version' | 'license', string>
  >;
  const { name = basename(folder), version = '0', license = 'unknown' } = manifest;
  const file = readdirSync(folder).find((entry) => /^(?:licen[cs]e|copying)(?:[.-].*)?$/i.test(entry));
  const text =
    file === undefined ? 'No licence file comes with it.' : readFileSync(join(folder, file), 'utf8');
  return { name, version, license, text };
}

function copyPart(name: string): void {
  const from = join(ROOT, 'packages', name);
  const manifest = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8')) as Record<string, unknown>;
  const to = join(RELEASE, String(manifest['name']).replace(/^@(.*)\//, '$1-'));
  cpSync(from, to, { recursive: true });
  const { name: called, ...rest } = manifest;
  const whole = { name: called, version: own.version, ...rest };
  writeFileSync(join(to, 'package.json'), `${JSON.stringify(whole, null, 2)}\n`);
}

type Project = Readonly<
  Record<'scripts' | 'dependencies' | 'devDependencies', Readonly<Record<string, string>>>
>;

/**
 * Converts an example into a template of `npm create`: uses the packages of svc, and starts like the template with a
 * page.
 */
function makeTemplate(name: string): void {
  const templates = join(RELEASE, 'create-svcyaml', 'templates');
  const [page, to] = [join(templates, 'react'), join(templates, name)];
  cpSync(join(ROOT, 'examples', name), to, {
    recursive: true,
    filter: (path) => !/^(?:node_modules|dist|\..*|package\.json)$/.test(basename(path)),
  });
  for (const file of ['dev.js', '_gitignore']) cpSync(join(page, file), join(to, file));
  const readme = readFileSync(join(page, 'README.md'), 'utf8');
  writeFileSync(
    join(to, 'README.md'),
    `${readme}\nWhat the parts of it are for is explained in \`node_modules/svcyaml/docs/${name}.md\`.\n`,
  );
  const read = (path: string): Project => JSON.parse(readFileSync(path, 'utf8')) as Project;
  const base = read(join(page, '_package.json'));
  const example = read(join(ROOT, 'examples', name, 'package.json'));
  const project = {
    ...base,
    dependencies: { ...base.dependencies, ...example.dependencies },
    devDependencies: { ...base.devDependencies, ...example.devDependencies },
  };
  writeFileSync(join(to, '_package.json'), `${JSON.stringify(project, null, 2)}\n`);
}

function pack(folder: string): void {
  execFileSync('npm', ['pack', '--silent', '--pack-destination', RELEASE], {
    cwd: join(RELEASE, folder),
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  process.stdout.write(`${join(RELEASE, folder)}\n`);
}

/** Writes the checksums in the format of `sha256sum --check SHA256SUMS`. */
function writeSums(): void {
  const tarballs = readdirSync(RELEASE).filter((name) => name.endsWith('.tgz'));
  const lines = tarballs.sort().map(
    (name) =>
      `${createHash('sha256')
        .update(readFileSync(join(RELEASE, name)))
        .digest('hex')}  ${name}\n`,
  );
  writeFileSync(join(RELEASE, 'SHA256SUMS'), lines.join(''));
}
