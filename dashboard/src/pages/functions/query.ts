import { queryOptions } from '@tanstack/react-query';
import type { CodeFunctionList } from '../../../../src/dashboard-api/contract.ts';
import { get } from '../../api.ts';

/** Asked again and again: a reload of the sources changes what loads and what does not. */
export const functionsQuery = queryOptions({
  queryKey: ['functions'],
  queryFn: ({ signal }) => get<CodeFunctionList>('/functions', signal),
  refetchInterval: 3_000,
});
