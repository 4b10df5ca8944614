// Users: the list of them, or one of them when the address names it.
import { usePageSearch } from '../parts/search-params.ts';
import { UserDetailPage } from './users/detail.tsx';
import { UserListPage } from './users/list.tsx';

export function Page() {
  const [{ user }] = usePageSearch();
  return user === undefined ? <UserListPage /> : <UserDetailPage key={user} id={user} />;
}
