// The parts of the pipeline that differ between reads, writes, calls and the description of the API.
import type { WireResult } from '../../postgres/wire/wire.ts';
import type { Exchange } from '../exchange.ts';
import type { MediaType } from '../request/media-type.ts';
import type { Payload } from '../request/body.ts';
import type { Page } from '../request/page.ts';
import type { Answer } from '../respond/respond.ts';
import type { ResultRow } from '../run/result-row.ts';
import type { RequestSql, RunMode } from '../run/run.ts';

/** Fields of a plan that the pipeline reads. */
export type Plan = RunMode & { readonly media: MediaType };

export type Outcome = {
  /** The single row of the first result. */
  readonly row: ResultRow;
  readonly results: readonly WireResult[];
  readonly payload: Payload;
  readonly page: Page;
};

export type Action<P extends Plan> = {
  /** Returns the requested page. Throws errors that are known before the body is read. */
  page(exchange: Exchange): Page;
  /** Reads the body of a request that has one. */
  payload?(exchange: Exchange): Promise<Payload> | undefined;
  /** Part of the plan's cache key that depends on the body. */
  payloadShape?(exchange: Exchange, payload: Payload): string;
  plan(exchange: Exchange, payload: Payload, page: Page): P;
  sql(plan: P): RequestSql;
  /** Values of the slots from FIELD on. */
  fields?(plan: P, payload: Payload): ReadonlyArray<string | null>;
  answer(exchange: Exchange, plan: P, outcome: Outcome): Answer;
};
