// What the site is made from: the pages of docs/, and one for each error code, made from the tables that list them.
// Codes that differ in capital letters only share a page: not every file system tells them apart.
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Pages with tables of codes, in the order in which they explain one. */
const OF_CODES = ['errors.md', 'migrations.md', 'from-supabase.md'];

/** Names of the pages of docs/, with slashes. */
export function pagesOf(docs) {
  return readdirSync(docs, { recursive: true })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.md') && !name.startsWith('decisions/'));
}

/** `to` is made anew. With `live`, what is written in docs/ is taken over while the process runs. */
export function putTogether(docs, to, { live }) {
  rmSync(to, { recursive: true, force: true });
  cpSync(docs, to, { recursive: true, filter: (path) => path !== join(docs, 'decisions') });
  writePagesOfCodes(docs, to);
  if (!live) return;
  watch(docs, { recursive: true }, (_event, name) => {
    if (name === null || name.startsWith('decisions')) return;
    cpSync(join(docs, name), join(to, name), { recursive: true, force: true });
    if (OF_CODES.includes(name)) writePagesOfCodes(docs, to);
  });
}

function writePagesOfCodes(docs, to) {
  mkdirSync(join(to, 'errors'), { recursive: true });
  const lines = OF_CODES.flatMap((page) => linesOf(page, readFileSync(join(docs, page), 'utf8')));
  for (const [name, ofPage] of Map.groupBy(lines, ({ code }) => code.toLowerCase()))
    writeFileSync(join(to, 'errors', `${name}.md`), pageOf(ofPage, lines));
  for (const page of OF_CODES) {
    const text = readFileSync(join(docs, page), 'utf8');
    writeFileSync(join(to, page), withLinks(text));
  }
}

/** The rows of all tables whose first column is `Code`. */
function linesOf(page, text) {
  const lines = [];
  let heading = '';
  let columns = [];
  for (const line of text.split('\n')) {
    // A link within a link is none.
    heading = /^##+ (.+)$/.exec(line)?.[1]?.replaceAll(/\[([^\]]+)\]\([^)]+\)/g, '$1') ?? heading;
    const cells = cellsOf(line);
    if (cells.length === 0) columns = [];
    else if (columns.length === 0) columns = cells;
    else if (columns[0] === 'Code' && !/^-+$/.test(cells[0])) {
      const [code, ...rest] = cells;
      lines.push({ code: code.replaceAll('`', ''), page, heading, columns: columns.slice(1), cells: rest });
    }
  }
  return lines;
}

function cellsOf(line) {
  return line.startsWith('|')
    ? line
        .split(/(?<!\\)\|/)
        .slice(1, -1)
        .map((cell) => cell.trim())
    : [];
}

function pageOf(lines, all) {
  const codes = [...new Set(lines.map(({ code }) => code))];
  const title = codes.map((code) => `\`${code}\``).join(', ');
  return [
    `---\ntitle: ${JSON.stringify(codes.join(', '))}\nprev: false\nnext: false\n---\n`,
    `# ${title}\n`,
    ...lines.map((line) => sectionOf(line, codes.length > 1)),
    `At a terminal, without a network: \`svc explain ${codes[0]}\`.\n`,
    `## Codes beside it\n`,
    neighboursOf(lines[0], all)
      .map(({ code }) => `[\`${code}\`](${code.toLowerCase()}.md)`)
      .join(' · '),
    '',
  ].join('\n');
}

function sectionOf({ code, page, heading, columns, cells }, isShared) {
  const from = `[${heading.replaceAll('`', '')}](../${page}${page === 'errors.md' ? `#${anchorOf(heading)}` : ''})`;
  const told = columns.flatMap((column, at) => {
    const cell = cells[at]?.replaceAll('\\|', '|').replaceAll(/\]\((?![a-z]+:|#)/g, '](../') ?? '';
    return cell === '' ? [] : [`- **${column}:** ${cell}`];
  });
  return `${isShared ? `\`${code}\`, from` : 'From'} ${from}:\n\n${told.join('\n')}\n`;
}

/** As VitePress makes them. */
function anchorOf(heading) {
  return heading
    .toLowerCase()
    .replaceAll(/[\s~`!@#$%^&*()\-_+=[\]{}|\\;:"'“”‘’<>,.?/]+/g, '-')
    .replaceAll(/^-+|-+$/g, '');
}

/** Some before it and some after it in its table. */
function neighboursOf(line, all) {
  const table = all.filter(({ page, heading }) => page === line.page && heading === line.heading);
  const at = table.indexOf(line);
  return table.slice(Math.max(0, at - 3), at + 4).filter((one) => one !== line);
}

/** The codes of its tables lead to their pages. */
function withLinks(text) {
  const codes = new Set(linesOf('', text).map(({ code }) => code));
  return text.replaceAll(/^\| `?([\w-]+)`? \|/gm, (cell, code) =>
    codes.has(code) ? `| [\`${code}\`](errors/${code.toLowerCase()}.md) |` : cell,
  );
}
