import { expect, test } from 'vitest';
import { S3Backend } from './s3.ts';

test.each([
  ['https://s3.example.com', 's3:https://s3.example.com/files'],
  ['https://key:secret@s3.example.com/base', 's3:https://s3.example.com/base/files'],
  [undefined, 's3:eu-central-1/files'],
])('the place %s is remembered as %s', (endpoint, location) => {
  const keys = { accessKeyId: undefined, secretAccessKey: undefined };
  expect(new S3Backend({ bucket: 'files', region: 'eu-central-1', endpoint, ...keys }).location).toBe(
    location,
  );
});
