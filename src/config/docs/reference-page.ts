// docs/configuration.md, made from the schema. `npm run docs` writes it, a test compares it.
import { EXAMPLES } from './reference-examples.ts';
import { SQL_MEDIA_TYPE, UNIT } from '../schema/kinds.ts';
import { describeSchema } from '../schema/schema.ts';

type Node = Record<string, unknown>;

const INTRO = `# svc.yaml

Every key, made from the schema that validates the file. \`svc schema\` prints the same as JSON Schema; put

\`\`\`yaml
# yaml-language-server: $schema=svc.schema.json
\`\`\`

on the first line and run \`svc schema > svc.schema.json\`, and your editor completes and checks while you type.

- **References**: \`\${VAR}\` and \`\${VAR:-default}\` in any value, alone or inside a longer text, from the environment (in \`svc dev\` also from \`.env\` and \`.development.env\`, in \`svc serve\` from \`.production.env\`; the shell wins). The default also stands in for an empty variable. Inside \`{ … }\` a reference needs quotes; it still becomes a number where a number belongs. Substituted values are never stored in the database and never shown in a message.
- **Dollar signs**: \`$\${NAME}\` is a literal \`\${NAME}\`. In SQL everything else that begins with a dollar (\`$1\`, \`$$\`, \`$body$\`) is left alone.
- **Numbers** keep their digits: \`1.10\` and \`9007199254740993\` reach the database as they are written.
- **Durations**: \`300ms\`, \`30s\`, \`5m\`, \`1h\`, \`7d\`. **Sizes**: \`500KB\`, \`5MB\`, \`1GB\` (powers of 1024).
- **Names** are kept as written, case included; 63 bytes are the most PostgreSQL keeps.
- **Paths** start from the directory of the file and stay in it.
- Anchors and merge keys (\`&name\`, \`*name\`, \`<<\`) work.
- A key with nothing behind it (\`tables:\`) counts as absent, except \`rls:\`.
- A mistake is reported with line, column and a suggestion; all of them at once. The file may be 1MB long.
`;

export function renderReferencePage(): string {
  const root: Node = describeSchema();
  const sections = Object.entries(children(root)).map(([key, node]) =>
    renderSection(key, node, isRequired(root, key)),
  );
  return `${INTRO}\n${sections.join('\n')}`;
}

function renderSection(key: string, node: Node, required: boolean): string {
  const rows: string[] = [];
  collect(key, node, required, rows);
  return [
    `## ${key}`,
    '',
    `${text(node['description'])}.`,
    '',
    '| Key | Type | Default | Meaning |',
    '|---|---|---|---|',
    ...rows,
    '',
    '```yaml',
    (EXAMPLES[key] ?? '').trim(),
    '```',
    '',
  ].join('\n');
}

function collect(path: string, node: Node, required: boolean, rows: string[]): void {
  const shape = unwrap(node);
  const nested = Object.entries(children(shape));
  const elementOf = object(shape['items']);
  const named = object(shape['additionalProperties']);
  rows.push(`| \`${path}\` | ${typeOf(node)} | ${defaultOf(node, required)} | ${meaning(node)} |`);
  for (const [key, child] of nested) collect(`${path}.${key}`, child, isRequired(shape, key), rows);
  const entry = elementOf && unwrap(elementOf);
  if (entry)
    for (const [key, child] of Object.entries(children(entry)))
      collect(`${path}[].${key}`, child, isRequired(entry, key), rows);
  const value = named && unwrap(named);
  if (value)
    for (const [key, child] of Object.entries(children(value)))
      collect(`${path}.<name>.${key}`, child, isRequired(value, key), rows);
}

function typeOf(node: Node): string {
  const values = node['enum'];
  if (Array.isArray(values)) return values.map((value) => `\`${String(value)}\``).join(', ');
  if (node['const'] !== undefined) return `\`${JSON.stringify(node['const'])}\``;
  const branches = node['anyOf'];
  if (Array.isArray(branches))
    return [...new Set(branches.map((branch) => typeOf(object(branch) ?? {})))]
      .filter((type) => type !== 'null')
      .join(' or ');
  if (typeof node[UNIT] === 'string') return node[UNIT];
  if (node['contentMediaType'] === SQL_MEDIA_TYPE) return 'SQL';
  if (Array.isArray(node['type'])) return node['type'][0] === 'number' ? 'number' : 'text';
  switch (node['type']) {
    case 'string':
      return 'text';
    case 'integer':
      return 'whole number';
    case 'array':
      return `list of ${plural(typeOf(unwrap(object(node['items']) ?? {})))}`;
    case 'object':
      return node['properties'] ? 'map' : 'map by name';
    default:
      return typeof node['type'] === 'string' ? node['type'] : 'any';
  }
}

function plural(type: string): string {
  return type === 'map' ? 'maps' : type;
}

function defaultOf(node: Node, required: boolean): string {
  if (required) return 'required';
  const value = node['default'];
  return value === undefined ? '' : `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}

function meaning(node: Node): string {
  const examples = node['examples'];
  const shown = Array.isArray(examples)
    ? ` E.g. ${examples.map((example) => `\`${typeof example === 'string' ? example : JSON.stringify(example)}\``).join(', ')}.`
    : '';
  return `${text(node['description'])}.${shown}`.replaceAll('|', '\\|');
}

/** The branch of a union that has something inside. */
function unwrap(node: Node): Node {
  const branches = node['anyOf'];
  if (!Array.isArray(branches)) return node;
  return (
    branches
      .map((branch) => object(branch) ?? {})
      .find((branch) => branch['properties'] ?? branch['items'] ?? branch['additionalProperties']) ?? node
  );
}

function children(node: Node): Record<string, Node> {
  const properties = object(node['properties']) ?? {};
  return Object.fromEntries(Object.entries(properties).map(([key, child]) => [key, object(child) ?? {}]));
}

function isRequired(node: Node, key: string): boolean {
  return Array.isArray(node['required']) && node['required'].includes(key);
}

function object(value: unknown): Node | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
