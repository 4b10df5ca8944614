// Every code that the source can produce is explained by a line in the docs, by `svc explain`, and by a page on the
// site. No line explains a removed code.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseAst } from 'rolldown/parseAst';
import { expect, test } from 'vitest';
import { explainedCodes, codePage } from '../src/cli/docs/documentation.ts';
import { NODE } from './support/svc-process.ts';

const SRC = join(import.meta.dirname, '../src');
const DOCS = join(import.meta.dirname, '../docs');
const MAKER = join(import.meta.dirname, '../site/.vitepress/pages.js');

/** Files whose codes are in a table or a type, not at the place that creates the problem. */
const TABLES: Readonly<Record<string, RegExp>> = {
  'auth/problem.ts': /'(outcome_unknown|database_unavailable)'/g,
  'config/mistakes/mistake.ts': /^ {2}\| '([a-z-]+)'/gm,
  'embedded-postgres/problem.ts': /^ {4}'(postgres_\w+)',$/gm,
  'functions/generation.ts': /'(bad_\w+)'/g,
  'functions/problem.ts': /\['(function_\w+)'/g,
  'migrate/problem.ts': /'((?:MIG|ADO)-\d+)'/g,
  'postgres/pg-error.ts': /kind: '([a-z-]+)',$/gm,
  'provision/schema-conflicts.ts': /'(ADO-\d+)'/g,
  'realtime/problem.ts': /^ {2}\| '(\w+)'/gm,
  'rest/problem.ts': /'(PGRST(?:201|30[13]))'/g,
  'rest/respond/wire-error.ts': /'((?:PGRST|SVC)\w+)'/g,
  'storage/backend/local.ts': /'(storage_directory)'/g,
  'storage/backend/s3.ts': /'(storage_bucket)'/g,
};
/** Files that forward codes, or compose codes that the docs explain under one name. */
const COMPOSED = new Set([
  'auth/problem.ts',
  'postgres/pg-tools.ts',
  'dashboard-api/routes/code-functions.ts',
  'deploy/api.ts',
  'problem/problem.ts',
  'rest/plan/relationship.ts',
  'rest/respond/database-problem.ts',
  'storage/backend/backend.ts',
  'storage/problem.ts',
]);
const COMPOSED_CODES = ['pg_dump_missing', 'pg_dump_too_old', 'pg_restore_missing', 'pg_restore_too_old'];

/** Functions that create problems, in files named problem.ts, in addition to the classes. */
const MAKERS = /^(?:fixed|withCode|withStatus|row|rowOf)$/;
/** Problem classes whose errors are texts of the protocol, without codes. */
const WITHOUT_CODES = /^(?:TusProblem)$/;

type Node = { readonly type: string; readonly [key: string]: unknown };
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null;

test('every code that the source can produce is explained, and no other code is', () => {
  const codes = new Set<string>(COMPOSED_CODES);
  const unknown: string[] = [];
  for (const file of readdirSync(SRC, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts') || /\.(?:test|d)\.ts$/.test(file)) continue;
    const text = readFileSync(join(SRC, file), 'utf8');
    for (const [, code = ''] of text.matchAll(TABLES[file] ?? /(?!)/g))
      codes.add(file === 'postgres/pg-error.ts' ? `database_${code.replaceAll('-', '_')}` : code);
    visit(parseAst(text, { lang: 'ts' }, file), (node) => {
      const made = findCodes(node, file);
      if (made === undefined) return;
      for (const code of made) codes.add(code);
      if (made.length === 0 && TABLES[file] === undefined && !COMPOSED.has(file)) unknown.push(file);
    });
  }
  expect(unknown, 'files that make problems of codes that this test cannot read').toEqual([]);

  const explained = new Set(explainedCodes().map(({ code }) => code));
  expect([...codes].filter((code) => !explained.has(code)).sort(), 'codes without a line').toEqual([]);
  const ofPage = [...readFileSync(join(DOCS, 'errors.md'), 'utf8').matchAll(/^\| `([^`<]+)` \|/gm)];
  expect(
    ofPage.map(([, code = '']) => code).filter((code) => !codes.has(code)),
    'lines about codes that nothing produces',
  ).toEqual([]);

  const pages = pagesOfCodes();
  const readTitle = (page: string): string => /^# (.+)$/m.exec(pages.get(page) ?? '')?.[1] ?? '';
  const isOnItsPage = (code: string): boolean => readTitle(codePage(code)).includes(`\`${code}\``);
  expect([...codes].filter((code) => !isOnItsPage(code)).sort(), 'codes without a page').toEqual([]);
});

/** Source texts of the site, by their paths on it. */
function pagesOfCodes(): ReadonlyMap<string, string> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-pages-'));
  const put = `import { putTogether } from ${JSON.stringify(pathToFileURL(MAKER).href)};
    putTogether(${JSON.stringify(DOCS)}, ${JSON.stringify(folder)}, { live: false });`;
  try {
    execFileSync(NODE, ['--input-type=module', '--eval', put]);
    const names = readdirSync(join(folder, 'errors'));
    return new Map(
      names.map((name) => [
        `errors/${name.replace(/\.md$/, '')}`,
        readFileSync(join(folder, 'errors', name), 'utf8'),
      ]),
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns codes of an object literal with a message or a hint, such as a response body. */
function literalCode(node: Node): string[] | undefined {
  if (node.type !== 'ObjectExpression') return undefined;
  const entries = (node['properties'] as readonly Node[]).flatMap(({ key, value }) =>
    isNode(key) && isNode(value) ? [[String(key['name']), value] as const] : [],
  );
  const values = new Map(entries);
  if (!values.has('message') && !values.has('hint')) return undefined;
  const codes = literals(values.get('code'));
  return codes.length > 0 ? codes : undefined;
}

/** Returns undefined if the node does not create a problem, and an empty list if its code cannot be read. */
function findCodes(node: Node, file: string): string[] | undefined {
  const written = literalCode(node);
  if (written !== undefined) return written;
  const name = calleeName(node);
  const makes =
    (node.type === 'NewExpression' && /Problem$|^AmbiguousEmbed$/.test(name) && !WITHOUT_CODES.test(name)) ||
    (node.type === 'CallExpression' && file.endsWith('problem.ts') && MAKERS.test(name));
  if (!makes) return undefined;
  const given = node['arguments'] as readonly Node[];
  const code = typeof given[0]?.['value'] === 'number' ? given[1] : given[0];
  return literals(code);
}

function calleeName(node: Node): string {
  const callee = node['callee'];
  return isNode(callee) && typeof callee['name'] === 'string' ? callee['name'] : '';
}

function literals(node: Node | undefined): string[] {
  if (node?.type === 'Literal' && typeof node['value'] === 'string') return [node['value']];
  if (node?.type === 'ConditionalExpression')
    return [...literals(node['consequent'] as Node), ...literals(node['alternate'] as Node)];
  return [];
}

function visit(node: unknown, seen: (node: Node) => void): void {
  if (Array.isArray(node)) for (const child of node) visit(child, seen);
  else if (isNode(node)) {
    if (typeof node.type === 'string') seen(node);
    for (const value of Object.values(node)) if (isNode(value)) visit(value, seen);
  }
}
