// docs/configuration.md, made from the schema. `npm run docs` writes it, a test compares it.
import { EXAMPLES } from './reference-examples.ts';
import { UNIT } from '../schema/kinds.ts';
import { asNode, isSql, unwrap, type SchemaNode } from '../schema/known-keys.ts';
import { describeSchema } from '../schema/schema.ts';

type Node = NonNullable<SchemaNode>;

const INTRO = `# svc.yaml

Every key, made from the schema that validates the file. \`svc schema\` prints the same as JSON Schema; put

\`\`\`yaml
# yaml-language-server: $schema=svc.schema.json
\`\`\`

on the first line and run \`svc schema > svc.schema.json\`, and your editor completes and checks while you type.

- **References**: \`\${VAR}\` and \`\${VAR:-default}\` in any value, alone or inside a longer text, from the environment (in \`svc dev\` also from \`.env\` and \`.development.env\`, in \`svc serve\` from \`.production.env\`, with \`--mode\` from that of the mode; the shell wins). The default also stands in for an empty variable. Inside \`{ … }\` a reference needs quotes; it still becomes a number where a number belongs. Substituted values are never stored in the database and never shown in a message.
- **Dollar signs**: \`$\${NAME}\` is a literal \`\${NAME}\`. In SQL everything else that begins with a dollar (\`$1\`, \`$$\`, \`$body$\`) is left alone.
- **Numbers** keep their digits: \`1.10\` and \`9007199254740993\` reach the database as they are written.
- **Durations**: \`300ms\`, \`30s\`, \`5m\`, \`1h\`, \`7d\`. **Sizes**: \`500KB\`, \`5MB\`, \`1GB\` (powers of 1024).
- **Names** are kept as written, case included; 63 bytes are the most PostgreSQL keeps.
- **Paths** start from the directory of the file and stay in it.
- Anchors and merge keys (\`&name\`, \`*name\`, \`<<\`) work.
- A key with nothing behind it (\`tables:\`) counts as absent, except \`rls:\`.
- A mistake is reported with line, column and a suggestion; all of them at once. The file may be 5MB long, with all that it includes.
- **Several files**: \`include: [tables/*.yaml, auth.yaml]\`. Each of them has the grammar of this file (\`version\` may be left out; \`svc schema --part\` prints its JSON Schema) and may include others. Maps are put together by their keys, and the lists \`extensions\`, \`seed\` and \`migrations.steps\` one behind the other, this file first, then the others by path. The same entry in two files is a mistake, even where both say the same. Paths start from the directory of \`svc.yaml\` in all of them; 200 files and five levels are the most, and links and addresses lead nowhere. Mistakes, \`svc migrate rename\` and the forms of the dashboard name and change the file where an entry stands. \`svc dev\` watches all of them and the folders of patterns; the migration history, \`svc deploy\` and \`svc config push\` take them as one file, which \`svc config print\` shows.
- **Overlays**: \`svc.<mode>.yaml\` beside \`svc.yaml\` (\`svc.staging.yaml\`) changes what differs in one mode: \`development\` (what \`svc dev\` and \`svc migrate\` take), \`test\`, \`staging\` or \`production\` (\`svc serve\`, \`svc deploy\`, \`svc config\`), or the one that \`--mode\` names, which also says which environment files count (\`.staging.env\`). Maps are laid over by their keys, lists and values are replaced, \`null\` removes, and a key with nothing behind it says nothing. It may change \`project\`, \`database\`, \`server\`, \`providers\`, \`auth\` without \`triggers\`, \`seed\`, \`env\` and \`timeout\` of code functions, \`limits\` and \`retention\` of \`realtime\`, and the times of \`migrations\`. All else is one for all modes, and refused with its place: what was tried in staging is what production gets. What an overlay replaces needs no variable in its mode. \`svc validate\` reads the file with each overlay that is there, \`svc dev\` watches its own, \`svc config print --mode staging --origins\` shows what is served and the line that each value comes from. The dashboard writes \`svc.yaml\` and says where an overlay hides a change.
`;

export function renderReferencePage(): string {
  const root = describeSchema();
  const sections = children(root).map(([key, node]) => renderSection(key, node, isRequired(root, key)));
  return `${INTRO}\n${sections.join('\n')}`;
}

function renderSection(key: string, node: Node, required: boolean): string {
  return [
    `## ${key}`,
    '',
    `${text(node['description'])}.`,
    '',
    '| Key | Type | Default | Meaning |',
    '|---|---|---|---|',
    ...rowsOf(key, node, required),
    '',
    '```yaml',
    (EXAMPLES[key] ?? '').trim(),
    '```',
    '',
  ].join('\n');
}

/** A row for the key, and one for each key below it. */
function rowsOf(path: string, node: Node, required: boolean): string[] {
  const shape = unwrap(node) ?? {};
  const below = (at: string, parent: SchemaNode): string[] =>
    children(parent).flatMap(([key, child]) => rowsOf(`${at}.${key}`, child, isRequired(parent, key)));
  return [
    `| \`${path}\` | ${typeOf(node)} | ${defaultOf(node, required)} | ${meaning(node)} |`,
    ...below(path, shape),
    ...below(`${path}[]`, unwrap(asNode(shape['items']))),
    ...below(`${path}.<name>`, unwrap(asNode(shape['additionalProperties']))),
  ];
}

function typeOf(node: Node): string {
  const values = node['enum'];
  if (Array.isArray(values)) return values.map((value) => `\`${String(value)}\``).join(', ');
  if (node['const'] !== undefined) return `\`${JSON.stringify(node['const'])}\``;
  const branches = node['anyOf'];
  if (Array.isArray(branches))
    return [...new Set(branches.map((branch) => typeOf(asNode(branch) ?? {})))]
      .filter((type) => type !== 'null')
      .join(' or ');
  if (typeof node[UNIT] === 'string') return node[UNIT];
  if (isSql(node)) return 'SQL';
  if (Array.isArray(node['type'])) return node['type'][0] === 'number' ? 'number' : 'text';
  switch (node['type']) {
    case 'string':
      return 'text';
    case 'integer':
      return 'whole number';
    case 'array': {
      const entry = typeOf(unwrap(asNode(node['items'])) ?? {});
      return `list of ${entry === 'map' ? 'maps' : entry}`;
    }
    case 'object':
      return node['properties'] ? 'map' : 'map by name';
    default:
      return typeof node['type'] === 'string' ? node['type'] : 'any';
  }
}

function defaultOf(node: Node, required: boolean): string {
  if (required) return 'required';
  return node['default'] === undefined ? '' : code(node['default']);
}

function meaning(node: Node): string {
  const examples = node['examples'];
  const shown = Array.isArray(examples) ? ` E.g. ${examples.map(code).join(', ')}.` : '';
  return `${text(node['description'])}.${shown}`.replaceAll('|', '\\|');
}

function code(value: unknown): string {
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}

function children(node: SchemaNode): [key: string, child: Node][] {
  return Object.entries(asNode(node?.['properties']) ?? {}).map(([key, child]) => [key, asNode(child) ?? {}]);
}

function isRequired(node: SchemaNode, key: string): boolean {
  return Array.isArray(node?.['required']) && node['required'].includes(key);
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
