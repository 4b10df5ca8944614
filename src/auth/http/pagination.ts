// Pages of the admin lists. supabase-js splits the Link header at commas, so `page` comes first, no URL has a comma,
// and `rel="last"` is always present.
import type { Fields } from '../fields.ts';

const DEFAULT_PER_PAGE = 50;
const MAX_PER_PAGE = 1000;

export type Page = { readonly page: number; readonly perPage: number; readonly offset: number };

export function readPage(query: Fields): Page {
  const page = Math.max(1, query.count('page') ?? 1);
  const perPage = Math.min(query.count('per_page') || DEFAULT_PER_PAGE, MAX_PER_PAGE);
  return { page, perPage, offset: (page - 1) * perPage };
}

export function pageHeaders(path: string, { page, perPage }: Page, total: number): Record<string, string> {
  const last = Math.max(1, Math.ceil(total / perPage));
  const link = (target: number, rel: string): string =>
    `<${path}?page=${target}&per_page=${perPage}>; rel="${rel}"`;
  const links = page < last ? [link(page + 1, 'next'), link(last, 'last')] : [link(last, 'last')];
  return { 'x-total-count': String(total), link: links.join(', ') };
}
