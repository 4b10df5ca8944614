import { expect, test } from 'vitest';
import { reasonIn } from './install.ts';

test('the reason of npm’s failure is shown, without its usage text', () => {
  const output = [
    'npm error code EUSAGE',
    'npm error',
    'npm error `npm ci` can only install packages when your package.json and package-lock.json are in sync.',
    'npm error',
    'npm error Missing: dep@1.0.0 from lock file',
    'npm error',
    'npm error Clean install a project',
    'npm error',
    'npm error Usage:',
    'npm error npm ci',
    'npm error A complete log of this run can be found in: /home/someone/.npm/_logs/debug-0.log',
  ].join('\n');
  expect(reasonIn(output)).toBe(
    '`npm ci` can only install packages when your package.json and package-lock.json are in sync.\n' +
      'Missing: dep@1.0.0 from lock file',
  );
});

test('output without a usage text is shown completely', () => {
  expect(reasonIn('npm ERR! code E404\nnpm ERR! 404 Not Found: nothing@1\n')).toBe(
    '404 Not Found: nothing@1',
  );
});
