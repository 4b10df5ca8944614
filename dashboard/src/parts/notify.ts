import { notifications } from '@mantine/notifications';
import { ApiProblem } from '../api.ts';
import { messageOf } from './states.tsx';

export function notifyDone(message: string): void {
  notifications.show({ message, color: 'teal' });
}

/** For what failed away from any form that could show it. Stays until it is closed. */
export function notifyFailure(error: unknown): void {
  const hint = error instanceof ApiProblem ? error.hint : null;
  notifications.show({ title: messageOf(error), message: hint ?? '', color: 'red', autoClose: false });
}
