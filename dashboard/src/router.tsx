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

/** Parses the query string of a page into plain text by name. */
function parseSearch(search: Record<string, unknown>): Record<string, string> {
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
    validateSearch: parseSearch,
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
