import { notifications } from '@mantine/notifications';
import { ApiProblem } from '../api.ts';
import { messageOf } from './states.tsx';

/** The component library's button has a cross and no name. */
const closeButtonProps = { 'aria-label': 'Close the message' };

export function notifyDone(message: string): void {
  notifications.show({ message, color: 'teal', closeButtonProps });
}

/** For what failed away from any form that could show it. Stays until it is closed. */
export function notifyFailure(error: unknown): void {
  const hint = error instanceof ApiProblem ? error.hint : null;
  notifications.show({
    title: messageOf(error),
    message: hint ?? '',
    color: 'red',
    autoClose: false,
    closeButtonProps,
  });
}
