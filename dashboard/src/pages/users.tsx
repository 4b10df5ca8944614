// Lists users, or shows the user that the address names.
import { usePageSearch } from '../parts/search-params.ts';
import { UserDetailPage } from './users/detail.tsx';
import { UserListPage } from './users/list.tsx';

export function Page() {
  const [{ user }] = usePageSearch();
  return user === undefined ? <UserListPage /> : <UserDetailPage key={user} id={user} />;
}
