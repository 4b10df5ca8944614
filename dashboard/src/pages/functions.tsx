// Lists code functions, or shows the function that the address names.
import { Page as Frame } from '../parts/page.tsx';
import { usePageSearch } from '../parts/search-params.ts';
import { FunctionDetail } from './functions/detail.tsx';
import { FunctionList } from './functions/list.tsx';
import { NewFunctionButton } from './functions/new-function.tsx';

export function Page() {
  const [{ name }] = usePageSearch();
  if (name !== undefined) return <FunctionDetail key={name} name={name} />;
  return (
    <Frame
      title="Code functions"
      description="JavaScript and TypeScript functions at /functions/v1/<name>, declared in svc.yaml."
      actions={<NewFunctionButton />}
    >
      <FunctionList />
    </Frame>
  );
}
