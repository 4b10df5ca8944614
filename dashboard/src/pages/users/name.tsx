import { Badge } from '@mantine/core';
import type { UserRow } from '../../../../src/dashboard-api/contract.ts';

/** Returns the display name of a user. */
export function displayName(user: Pick<UserRow, 'id' | 'email' | 'phone'>): string {
  return user.email ?? (user.phone === null ? `anonymous ${user.id.slice(0, 8)}` : `+${user.phone}`);
}

export function isBanned(user: UserRow, now: number = Date.now()): boolean {
  return user.bannedUntil !== null && new Date(user.bannedUntil).getTime() > now;
}

export function UserState({ user }: { user: UserRow }) {
  const [text, color] = isBanned(user)
    ? ['banned', 'red']
    : user.anonymous
      ? ['anonymous', 'gray']
      : user.confirmedAt === null
        ? ['unconfirmed', 'yellow']
        : ['active', 'teal'];
  return (
    <Badge variant="light" color={color}>
      {text}
    </Badge>
  );
}
