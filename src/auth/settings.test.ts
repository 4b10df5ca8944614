// Tests which mail is sent in development, and which is captured.
import { expect, test } from 'vitest';
import { makeConfig } from '../../test/support/auth-config.ts';
import { isCaptured, readAuthSettings } from './settings.ts';

const provider = { type: 'resend', apiKey: 'x', defaultFromEmail: 'App <app@example.com>' } as const;
const mailSettings = (env: Record<string, string>, dev = true, mail: 'none' | typeof provider = provider) =>
  readAuthSettings(makeConfig({ mail }), env, dev).mail;

test('svc dev captures mail, with and without a provider', () => {
  expect(mailSettings({})).toEqual({ type: 'catch', from: 'App <app@example.com>' });
  expect(mailSettings({ SVC_DEV_MAIL: 'capture' })?.type).toBe('catch');
  expect(mailSettings({}, true, 'none')?.type).toBe('catch');
  expect(mailSettings({ SVC_DEV_MAIL: 'send' }, true, 'none')?.type).toBe('catch');
});

test('svc dev sends mail to all or to listed recipients if SVC_DEV_MAIL is set to send', () => {
  expect(mailSettings({ SVC_DEV_MAIL: 'send' })).toMatchObject({ type: 'resend', onlyTo: undefined });
  const settings = mailSettings({ SVC_DEV_MAIL: 'send:Me@example.com, @example.org' });
  if (!settings) throw new Error('no mail settings');
  const captured = [
    'me@example.com',
    'a@example.org',
    'you@example.com',
    'a@sub.example.org',
    'x@notexample.org',
  ];
  expect(captured.map((recipient) => isCaptured(settings, recipient))).toEqual([
    false,
    false,
    true,
    true,
    true,
  ]);
});

test('svc serve ignores SVC_DEV_MAIL and sends mail through the provider', () => {
  expect(mailSettings({ SVC_DEV_MAIL: 'capture' }, false)?.type).toBe('resend');
  expect(mailSettings({}, false, 'none')).toBeUndefined();
});
