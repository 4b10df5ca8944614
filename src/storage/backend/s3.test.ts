import { expect, test } from 'vitest';
import { S3Backend } from './s3.ts';

test.each([
  ['https://s3.example.com', 'https://s3.example.com'],
  ['https://key:secret@s3.example.com/base', 'https://s3.example.com/base'],
  [undefined, 'eu-central-1'],
])('the place %s is remembered as %s', (endpoint, location) => {
  const keys = { accessKeyId: undefined, secretAccessKey: undefined };
  const { place } = new S3Backend({ bucket: 'files', region: 'eu-central-1', endpoint, ...keys });
  expect(place).toEqual({ kind: 's3', endpoint: location, bucket: 'files', prefix: '' });
});
