// Counts the bytes of a response, from their allocation until the client has received them.
import { SMALL_BYTES, type AnswerCharge } from '../../http/answer-budget.ts';
import { callerKey } from '../../lib/limits/caller-key.ts';
import type { WireResult } from '../../postgres/wire/wire.ts';
import { noRoomForAnswer } from '../../problem/overloaded.ts';
import type { Exchange } from '../exchange.ts';

/** Returns the maximum size of a response. */
export function maxAnswerBytes({ context, scope }: Exchange): number {
  const { maxResponseBytes } = context.snapshot().config.server;
  return Math.min(maxResponseBytes, scope.answers?.maxPerCaller ?? maxResponseBytes);
}

/**
 * Charges `bytes` for the response. Returns false if there is no memory for them. `giveUp` cancels the response, now
 * or later; without it the bytes are only counted.
 */
export function admit(exchange: Exchange, bytes: number, giveUp: (() => void) | undefined): boolean {
  const charge = openCharge(exchange);
  if (!charge) return true;
  if (!charge.isStopped) charge.stop ??= giveUp;
  return charge.growTo(bytes);
}

/**
 * Rejects a write before it begins if there is no memory for its response, because it cannot be cancelled afterwards.
 */
export function assertRoomForAnswer(exchange: Exchange): void {
  const { answers } = exchange.scope;
  if (answers?.isScarce === true && !answers.hasRoom(exchangeKey(exchange))) throw noRoomForAnswer();
}

/** Charges the complete response until it is sent. Throws if it was cancelled. */
export function built(
  exchange: Exchange,
  { isReadOnly }: { readonly isReadOnly: boolean },
  result: WireResult | undefined,
): void {
  const { scope } = exchange;
  let bytes = 0;
  for (const value of result?.rows[0] ?? []) bytes += value?.length ?? 0;
  const { answers, answer: own } = scope;
  if (own) {
    if (own.isStopped) throw noRoomForAnswer();
    own.shrinkTo(bytes);
    own.stop = undefined;
  }
  if (!answers || !result || bytes <= SMALL_BYTES) return;
  const charge = answers.share(result, own ?? answers.open(exchangeKey(exchange)));
  scope.answer = charge;
  // Another request's run produced the response, so this caller may lack memory for it.
  if (!admit(exchange, bytes, isReadOnly ? () => {} : undefined)) throw noRoomForAnswer();
  charge.stop = undefined;
}

function openCharge(exchange: Exchange): AnswerCharge | undefined {
  const { scope } = exchange;
  scope.answer ??= scope.answers?.open(exchangeKey(exchange));
  return scope.answer;
}

function exchangeKey({ caller, scope }: Exchange): string {
  return callerKey(caller, scope.address);
}
