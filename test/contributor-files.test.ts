// Files that editors and forges read: they parse, and the paths in them exist.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

const text = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

test('debug configurations name files of the repository', () => {
  const { configurations } = JSON.parse(text('.vscode/launch.json')) as {
    configurations: Array<{ program: string; args: string[] }>;
  };
  const paths = configurations.flatMap(({ program, args }) => [
    program.replace('${workspaceFolder}/', ''),
    ...args.filter((argument) => argument.endsWith('.yaml')),
  ]);
  expect(paths).toHaveLength(3);
  expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
});

test('recommended extensions are a list of names', () => {
  expect(JSON.parse(text('.vscode/extensions.json'))).toEqual({
    recommendations: expect.arrayContaining([expect.stringMatching(/^[\w-]+\.[\w-]+$/)]),
  });
});

test('the development container builds from a file that exists', () => {
  const { build } = JSON.parse(text('.devcontainer/devcontainer.json')) as { build: { dockerfile: string } };
  expect(existsSync(join(ROOT, '.devcontainer', build.dockerfile))).toBe(true);
});

test('issue templates parse and have a description', () => {
  const folder = '.github/ISSUE_TEMPLATE';
  const templates = readdirSync(join(ROOT, folder)).filter((name) => name !== 'config.yml');
  expect(templates).toEqual(['bug.yml', 'documentation.yml', 'feature.yml']);
  for (const name of templates) {
    expect(parse(text(`${folder}/${name}`))).toMatchObject({
      name: expect.any(String),
      description: expect.any(String),
      body: expect.any(Array),
    });
  }
});

test.each([
  ['SECURITY.md', 'README.md'],
  ['GOVERNANCE.md', 'CONTRIBUTING.md'],
  ['CODE_OF_CONDUCT.md', 'CONTRIBUTING.md'],
])('%s exists, and %s links to it', (path, from) => {
  expect(existsSync(join(ROOT, path))).toBe(true);
  expect(text(from)).toContain(`](${path})`);
});
