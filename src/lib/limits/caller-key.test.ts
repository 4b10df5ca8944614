import { describe, expect, it } from 'vitest';
import { callerKey } from './caller-key.ts';

const anon = { role: 'anon', user: null };
const user = { role: 'authenticated', user: { sub: 'u1' } };
const secret = { role: 'service_role', user: null };

describe('callerKey', () => {
  it('identifies a signed-in user by the user id, at any address', () => {
    expect(callerKey(user, '192.0.2.1')).toBe(callerKey(user, '198.51.100.7'));
    expect(callerKey(user, '192.0.2.1')).not.toBe(callerKey({ ...user, user: { sub: 'u2' } }, '192.0.2.1'));
  });

  it('identifies a caller without a user by the IPv4 address', () => {
    expect(callerKey(anon, '192.0.2.1')).toBe(callerKey(undefined, '192.0.2.1'));
    expect(callerKey(anon, '192.0.2.1')).not.toBe(callerKey(anon, '192.0.2.2'));
  });

  it('identifies a caller without a user by the IPv6 network of 64 bits', () => {
    expect(callerKey(anon, '2001:db8:1:2::5')).toBe(callerKey(anon, '2001:db8:1:2:ffff::9'));
    expect(callerKey(anon, '2001:db8:1:2::5')).not.toBe(callerKey(anon, '2001:db8:1:3::5'));
  });

  it('separates the secret key from other callers of its network', () => {
    expect(callerKey(secret, '192.0.2.1')).not.toBe(callerKey(anon, '192.0.2.1'));
    expect(callerKey(secret, '192.0.2.1')).not.toBe(callerKey(secret, '192.0.2.2'));
  });

  it('does not confuse a user id that looks like an address with a network', () => {
    const named = { role: 'authenticated', user: { sub: '192.0.2.1' } };
    expect(callerKey(named, '198.51.100.7')).not.toBe(callerKey(anon, '192.0.2.1'));
  });

  it('treats a token without a subject as a caller without a user', () => {
    expect(callerKey({ role: 'authenticated', user: { sub: null } }, '192.0.2.1')).toBe(
      callerKey(anon, '192.0.2.1'),
    );
  });
});
