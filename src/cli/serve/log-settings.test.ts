import { expect, test } from 'vitest';
import { logSettings } from '../environment.ts';

test.each([
  [{}, 'json', true, { level: 'info', pretty: undefined }],
  [{}, 'pretty', true, { level: 'info', pretty: 'coloured' }],
  [{ SVC_LOG_FORMAT: 'json', SVC_LOG_LEVEL: 'debug' }, 'pretty', true, { level: 'debug', pretty: undefined }],
  [{ SVC_LOG_FORMAT: 'pretty' }, 'json', false, { level: 'info', pretty: 'plain' }],
] as const)('%j, with the default format %s', (env, byDefault, color, settings) => {
  expect(logSettings(env, byDefault, { color })).toEqual(settings);
});

test.each([{ SVC_LOG_FORMAT: 'xml' }, { SVC_LOG_LEVEL: 'loud' }])(
  '%j is rejected with the name of the variable',
  (env) => {
    expect(() => logSettings(env, 'json', { color: false })).toThrow(Object.keys(env)[0]);
  },
);
