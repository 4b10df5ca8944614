import '@mantine/core/styles.css';
import '@mantine/notifications/styles.css';
import './main.css';
import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { ApiProblem, whenSignedOut } from './api.ts';
import { router } from './router.tsx';
import { sessionQuery } from './session.ts';
import { styleNonce } from './style-nonce.ts';
import { theme } from './theme.ts';

const queries = new QueryClient({
  queryCache: new QueryCache(),
  defaultOptions: {
    queries: {
      // Retry only if the service does not answer. Other errors are final.
      retry: (count, error) => error instanceof ApiProblem && error.status === 0 && count < 3,
      refetchOnWindowFocus: true,
      staleTime: 2_000,
    },
  },
});
whenSignedOut(() => void queries.invalidateQueries({ queryKey: sessionQuery.queryKey }));

// The scroll lock of dialogs also writes a style element. It reads its nonce from this name.
Reflect.set(globalThis, '__webpack_nonce__', styleNonce());

const element = document.getElementById('root');
if (element) {
  createRoot(element).render(
    <StrictMode>
      <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={styleNonce}>
        <QueryClientProvider client={queries}>
          <Notifications position="bottom-right" />
          <RouterProvider router={router} />
        </QueryClientProvider>
      </MantineProvider>
    </StrictMode>,
  );
}
