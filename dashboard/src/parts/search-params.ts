import { useNavigate, useSearch } from '@tanstack/react-router';

/** What a page keeps in its address, so that a link or a reload leads back to the same view. */
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
