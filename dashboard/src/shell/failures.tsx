import { Anchor, Stack, Text } from '@mantine/core';
import { Link, type ErrorComponentProps } from '@tanstack/react-router';
import { Failure } from '../parts/states.tsx';
import { Page } from '../parts/page.tsx';

export function NotFound() {
  return (
    <Page title="Page not found">
      <Text>
        <Anchor renderRoot={(props) => <Link {...props} to="/" />}>Back to the overview</Anchor>
      </Text>
    </Page>
  );
}

/** Shows the error of one page. The rest of the dashboard keeps working. */
export function PageFailure({ error, reset }: ErrorComponentProps) {
  return (
    <Stack>
      <Failure error={error} onRetry={reset} />
    </Stack>
  );
}
