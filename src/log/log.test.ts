import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stripVTControlCharacters, styleText } from 'node:util';
import { expect, test } from 'vitest';
import { prettyMessage } from './log.ts';

test.each([
  [200, 'green'],
  [304, 'cyan'],
  [404, 'yellow'],
  [500, 'red'],
] as const)('a request answered with %i is %s', (status, colour) => {
  const line = { status, method: 'GET', url: '/rest/v1/todos', ms: 3.1 };
  const shown = prettyMessage(line, 'request');
  expect(shown.startsWith(styleText(colour, String(status), { validateStream: false }))).toBe(true);
  expect(stripVTControlCharacters(shown)).toBe(`${status} GET /rest/v1/todos 3.1 ms`);
});

test('the line of a rejected request has the reason', () => {
  const line = { status: 404, method: 'GET', url: '/rest/v1/todo', code: 'PGRST205', ms: 3.1 };
  expect(stripVTControlCharacters(prettyMessage(line, 'request'))).toBe(
    '404 GET /rest/v1/todo PGRST205 3.1 ms',
  );
});

test('the line of a rejected request has a hint', () => {
  const line = { status: 404, method: 'GET', url: '/a', code: 'C', hint: 'Do this.', ms: 3 };
  expect(stripVTControlCharacters(prettyMessage(line, 'request'))).toBe('404 GET /a C 3 ms\n    → Do this.');
});

test('a stack is shown line by line, without the frames of svc and of Node', () => {
  const error = [
    'TypeError: no',
    '    at inner (file:///project/functions/a.js:3:9)',
    '    at handle (file:///svc/dist/functions/worker/main.js:200:22)',
    '    at process.processTicksAndRejections (node:internal/process/task_queues:105:5)',
  ].join('\n');
  expect(prettyMessage({ error }, 'the function failed')).toBe(
    'the function failed\n    TypeError: no\n        at inner (file:///project/functions/a.js:3:9)',
  );
});

test('a process ends although its log has no reader', async () => {
  const log = new URL('./log.ts', import.meta.url).href;
  const program = `
    const { createLog } = await import(${JSON.stringify(log)});
    const log = createLog();
    process.stdin.resume().once('end', () => {
      log.info('the last line, which has no reader');
      process.exit(7);
    });`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  child.stdout.destroy();
  await once(child.stdout, 'close');
  child.stdin.end();
  const [code] = await once(child, 'exit');
  expect(code).toBe(7);
});
