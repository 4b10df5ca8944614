import { useNavigate, useSearch } from '@tanstack/react-router';

/** Reads and writes the view state in the query string, so that a link or a reload restores the same view. */
export function usePageSearch(): [
  Readonly<Record<string, string | undefined>>,
  (changes: Record<string, string | undefined>) => void,
] {
  const search = useSearch({ strict: false });
  const navigate = useNavigate();
  const change = (changes: Record<string, string | undefined>): void => {
    void navigate({ to: '.', search: { ...search, ...changes }, replace: true });
  };
  return [search, change];
}
