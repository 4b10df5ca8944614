import { describe, expect, test } from 'vitest';
import { call } from './http.ts';
import { resumableSuite } from './resumable.ts';
import { aBucket, createWorld, OWN } from './world.ts';

describe('resumable uploads on a local directory', () => {
  resumableSuite(256 * 1024, () => Promise.resolve({}));
});

test('the Location is on the public base URL, for any Host header', async () => {
  const world = await createWorld({
    buckets: [aBucket('priv', { rls: [OWN] })],
    baseUrl: 'https://files.example.test',
  });
  try {
    const answer = await call('POST', `${world.url}/upload/resumable`, {
      headers: {
        ...world.alice.headers,
        'tus-resumable': '1.0.0',
        'upload-length': '1',
        'upload-metadata': `bucketName ${btoa('priv')},objectName ${btoa('a.txt')}`,
        'x-forwarded-host': 'evil.example',
        'x-forwarded-proto': 'http',
      },
    });
    expect(answer.headers.get('location')).toMatch(
      /^https:\/\/files\.example\.test\/storage\/v1\/upload\/resumable\/[\w-]+$/,
    );
  } finally {
    await world.stop();
  }
});
