import { queryOptions } from '@tanstack/react-query';
import type { CodeFunctionList } from '../../../../src/dashboard-api/contract.ts';
import { get } from '../../api.ts';

/** Polls, because a reload can change which functions load. */
export const functionsQuery = queryOptions({
  queryKey: ['functions'],
  queryFn: ({ signal }) => get<CodeFunctionList>('/functions', signal),
  refetchInterval: 3_000,
});
