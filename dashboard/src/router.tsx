import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type AnyRoute,
} from '@tanstack/react-router';
import { NotFound, PageFailure } from './shell/failures.tsx';
import { Frame } from './shell/frame.tsx';
import { PAGES } from './shell/pages.ts';

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound });

/** What a page keeps in the address (the chosen table, the caller …) is plain text by name. */
function searchOf(search: Record<string, unknown>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(search).flatMap(([name, value]) =>
      typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
        ? [[name, String(value)]]
        : [],
    ),
  );
}

const pages: AnyRoute[] = PAGES.map((page) =>
  createRoute({
    getParentRoute: () => root,
    path: page.path,
    validateSearch: searchOf,
    component: lazyRouteComponent(page.load, 'Page'),
    errorComponent: PageFailure,
  }),
);

export const router = createRouter({
  routeTree: root.addChildren(pages),
  basepath: '/dashboard',
  defaultPreload: 'intent',
  scrollRestoration: true,
});
