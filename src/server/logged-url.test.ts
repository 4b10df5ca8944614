import { expect, test } from 'vitest';
import { loggedUrl } from './logged-url.ts';

test.each([
  ['/rest/v1/todos?select=*', '/rest/v1/todos?select=*'],
  ['/rest/v1/todos?apikey=svc_secret_x&a=eq.1', '/rest/v1/todos?apikey=[redacted]&a=eq.1'],
  [
    '/rest/v1/orders?state=eq.open&code=eq.7&token=is.null',
    '/rest/v1/orders?state=eq.open&code=eq.7&token=is.null',
  ],
  ['/rest/v1/sessions?access_token=eq.x', '/rest/v1/sessions?access_token=[redacted]'],
  ['http://host/rest/v1/orders?state=eq.open', 'http://host/rest/v1/orders?state=eq.open'],
  ['/rest/v10?state=x', '/rest/v10?state=[redacted]'],
  ['/auth/v1/verify?type=signup&token=abc', '/auth/v1/verify?type=signup&token=[redacted]'],
  ['/auth/v1/callback/google?CODE=1&state=2', '/auth/v1/callback/google?CODE=[redacted]&state=[redacted]'],
  [
    '/functions/v1/fetch?X-Amz-Security-Token=a.b.c&X-Amz-Signature=0a1b',
    '/functions/v1/fetch?X-Amz-Security-Token=[redacted]&X-Amz-Signature=[redacted]',
  ],
  [
    '/storage/v1/object/sign/b/p?token=ey.a.b&download=',
    '/storage/v1/object/sign/b/p?token=[redacted]&download=',
  ],
])('%s is logged as %s', (url, logged) => {
  expect(loggedUrl(url)).toBe(logged);
});
