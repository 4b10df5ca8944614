import { notifications } from '@mantine/notifications';
import { ApiProblem } from '../api.ts';
import { errorMessage } from './states.tsx';

/** The close button of the component library has no accessible name. */
const closeButtonProps = { 'aria-label': 'Close the message' };

export function notifyDone(message: string): void {
  notifications.show({ message, color: 'teal', closeButtonProps });
}

/** Shows an error that does not belong to a form. It stays until it is closed. */
export function notifyFailure(error: unknown): void {
  const hint = error instanceof ApiProblem ? error.hint : null;
  notifications.show({
    title: errorMessage(error),
    message: hint ?? '',
    color: 'red',
    autoClose: false,
    closeButtonProps,
  });
}
