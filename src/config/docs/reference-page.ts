// Renders docs/configuration.md from the schema. `npm run docs` writes the page, and a test compares it.
import { EXAMPLES, FIRST_APP } from './reference-examples.ts';
import { listSections, type ListedKey } from '../schema/common-keys.ts';
import { UNIT } from '../schema/kinds.ts';
import { asNode, isSql, unwrap, type SchemaNode } from '../schema/known-keys.ts';

type Node = NonNullable<SchemaNode>;

const INTRO = `# svc.yaml

After reading this page you can look up every key of \`svc.yaml\`. These are the keys of a first app:

\`\`\`yaml
${FIRST_APP}
\`\`\`

Each key of the file has a section below with its common keys and an example. To see the other keys of a section,
open the line below its table. The page is generated from the schema that validates the file.

For completion and checks in your editor, run \`svc schema > svc.schema.json\` and put this on the first line of the
file: \`# yaml-language-server: $schema=svc.schema.json\`. \`svc schema --common\` prints a short JSON Schema with the
common keys.

## Syntax

- **References**: \`\${VAR}\` and \`\${VAR:-default}\` in any value, alone or inside a longer text, are replaced by
  variables of the environment. \`svc dev\` also reads \`.env\` and \`.development.env\`, \`svc serve\` reads
  \`.production.env\`, and \`--mode\` selects the file of that mode. Variables of the shell take precedence. The default
  also replaces an empty variable. Inside \`{ … }\` a reference needs quotes; it still becomes a number if the key
  expects one. svc never stores substituted values in the database and never shows them in a message.
- **Dollar signs**: \`$\${NAME}\` is a literal \`\${NAME}\`. In SQL, svc does not change other texts that begin with a
  dollar (\`$1\`, \`$$\`, \`$body$\`).
- **Commas**: inside \`{ … }\` and \`[ … ]\` a comma ends the value. Put SQL with a comma in quotes:
  \`using: "role in ('a', 'b')"\`. An item of \`{ … }\` without a colon is an error.
- **Numbers** keep their digits: the database gets \`1.10\` and \`9007199254740993\` as written.
- **Durations**: \`300ms\`, \`30s\`, \`5m\`, \`1h\`, \`7d\`. **Sizes**: \`500KB\`, \`5MB\`, \`1GB\` (powers of 1024).
- **Names** are case-sensitive. PostgreSQL allows 63 bytes.
- **Paths** are relative to the directory of the file and cannot leave it.
- **Anchors and merge keys** (\`&name\`, \`*name\`, \`<<\`) are supported.
- **Empty keys**: a key without a value (\`tables:\`) counts as absent, except \`rls:\`.
- **Mistakes** are reported all at once, with line, column and a suggestion. The file and its includes can have 5MB in
  total.

## Split the file

\`include: [tables/*.yaml, auth.yaml]\` adds files. Each of them has the grammar of this file (\`version\` is optional;
\`svc schema --part\` prints its JSON Schema) and can include others.

- Maps are merged by their keys. The lists \`extensions\`, \`seed\` and \`migrations.steps\` are concatenated, this file
  first, then the others by path. The same entry in two files is a mistake, even if both are equal.
- Paths are relative to the directory of \`svc.yaml\` in all files. The limits are 200 files and five levels. Links and
  URLs are not followed.
- Mistakes, \`svc migrate rename\` and the forms of the dashboard refer to and change the file that contains the entry.
  \`svc dev\` watches all files and the folders of patterns. The migration history, \`svc deploy\` and
  \`svc config push\` use the merged file, which \`svc config print\` shows.

## Override settings per mode

An overlay, \`svc.<mode>.yaml\` in the folder of \`svc.yaml\` (\`svc.staging.yaml\`), changes settings in one mode. The
modes are \`development\` (default of \`svc dev\` and \`svc migrate\`), \`test\`, \`staging\` and \`production\`
(default of \`svc serve\`, \`svc deploy\`, \`svc config\`). \`--mode\` selects another one, with its environment files
(\`.staging.env\`).

- Maps are merged by their keys, lists and values are replaced, \`null\` removes a key, and a key without a value has
  no effect.
- An overlay can change \`project\`, \`database\`, \`server\`, \`providers\`, \`auth\` without \`triggers\`, \`seed\`,
  \`env\` and \`timeout\` of code functions, \`limits\` and \`retention\` of \`realtime\`, and the times of
  \`migrations\`. All other keys are the same in all modes, so production gets what you tested in staging. svc rejects
  them in an overlay, with their place.
- A value that an overlay replaces needs no variable in its mode.
- \`svc validate\` reads the file with each existing overlay, and \`svc dev\` watches the overlay of its mode.
  \`svc config print --mode staging --origins\` shows the result and the line of each value. The dashboard writes
  \`svc.yaml\` and reports if an overlay hides a change.
`;

export function renderReferencePage(): string {
  return `${INTRO}\n${listSections().map(renderSection).join('\n')}`;
}

/** The first key is the key of the section. Its row is never folded. */
function renderSection([section, ...keys]: readonly ListedKey[]): string {
  if (section === undefined) return '';
  const folded = keys.filter((key) => !key.isProminent);
  return [
    `## ${section.path}`,
    '',
    `${text(section.node['description'])}.`,
    '',
    ...renderTable([section, ...keys.filter((key) => key.isProminent)]),
    '',
    ...(folded.length === 0 ? [] : renderFolded(folded)),
    '```yaml',
    (EXAMPLES[section.path] ?? '').trim(),
    '```',
    '',
  ].join('\n');
}

/** GitHub and the site render a table inside HTML only between empty lines. */
function renderFolded(keys: readonly ListedKey[]): string[] {
  const summary = keys.length === 1 ? '1 other key' : `${keys.length} other keys`;
  return ['<details>', `<summary>${summary}</summary>`, '', ...renderTable(keys), '', '</details>', ''];
}

function renderTable(keys: readonly ListedKey[]): string[] {
  return ['| Key | Type | Default | Meaning |', '|---|---|---|---|', ...keys.map(renderRow)];
}

function renderRow({ path, node, isRequired }: ListedKey): string {
  return `| \`${path}\` | ${renderType(node)} | ${renderDefault(node, isRequired)} | ${meaning(node)} |`;
}

function renderType(node: Node): string {
  const values = node['enum'];
  if (Array.isArray(values)) return values.map((value) => `\`${String(value)}\``).join(', ');
  if (node['const'] !== undefined) return `\`${JSON.stringify(node['const'])}\``;
  const branches = node['anyOf'];
  if (Array.isArray(branches))
    return [...new Set(branches.map((branch) => renderType(asNode(branch) ?? {})))]
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
      const entry = renderType(unwrap(asNode(node['items'])) ?? {});
      return `list of ${entry === 'map' ? 'maps' : entry}`;
    }
    case 'object':
      return node['properties'] ? 'map' : 'map by name';
    default:
      return typeof node['type'] === 'string' ? node['type'] : 'any';
  }
}

function renderDefault(node: Node, required: boolean): string {
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

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
