// A request with the data that all stages need.
import type { FastifyReply } from 'fastify';
import type { FeatureContext } from '../http/feature.ts';
import type { RequestScope } from '../http/request-scope.ts';
import type { Caller } from '../identity/caller.ts';
import type { Exposed } from './plan/exposed.ts';
import type { PlanCache } from './plan/plan-cache.ts';
import type { ApiRequest } from './request/api-request.ts';

export type Exchange = {
  readonly context: FeatureContext;
  readonly exposed: Exposed;
  readonly plans: PlanCache;
  readonly request: ApiRequest;
  readonly caller: Caller;
  readonly reply: FastifyReply;
  readonly scope: RequestScope;
  /** The stream of the request, unread. */
  readonly body: unknown;
};
