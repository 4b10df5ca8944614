import { Anchor } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

/** Links to a page or, by default, to another view of the current page. */
export function PageLink({
  to = '.',
  search,
  children,
  label,
}: {
  to?: string;
  search: Record<string, string | undefined>;
  children: ReactNode;
  /** Accessible name, if the content is not sufficient. */
  label?: string;
}) {
  return (
    <Anchor inherit aria-label={label} renderRoot={(props) => <Link {...props} to={to} search={search} />}>
      {children}
    </Anchor>
  );
}
