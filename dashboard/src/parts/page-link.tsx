import { Anchor } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

/** A link to another view of a page: by default, of the page one is on. */
export function PageLink({
  to = '.',
  search,
  children,
  label,
}: {
  to?: string;
  search: Record<string, string | undefined>;
  children: ReactNode;
  /** For people who do not see it, where the content does not say it. */
  label?: string;
}) {
  return (
    <Anchor inherit aria-label={label} renderRoot={(props) => <Link {...props} to={to} search={search} />}>
      {children}
    </Anchor>
  );
}
