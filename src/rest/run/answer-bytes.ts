// The bytes of an answer as they are counted: from when memory is taken for it until its client has it.
import { SMALL_BYTES, type AnswerCharge } from '../../http/answer-budget.ts';
import { turnKey } from '../../postgres/pool/sharer.ts';
import type { WireResult } from '../../postgres/wire/wire.ts';
import { noRoomForAnswer } from '../../problem/overloaded.ts';
import type { Exchange } from '../exchange.ts';

/** The largest answer that can be built. */
export function maxAnswerBytes({ context, scope }: Exchange): number {
  const { maxResponseBytes } = context.snapshot().config.server;
  return Math.min(maxResponseBytes, scope.answers?.mostForOne ?? maxResponseBytes);
}

/**
 * Whether there is room for the answer when it has so many bytes. `giveUp` ends it, now or when it is asked for later;
 * without it the bytes are counted and no more.
 */
export function admit(exchange: Exchange, bytes: number, giveUp: (() => void) | undefined): boolean {
  const charge = chargeOf(exchange);
  if (!charge) return true;
  if (!charge.isStopped) charge.stop ??= giveUp;
  return charge.growTo(bytes);
}

/** For what is not only read, and has happened once its answer comes: refused before it begins, or not at all. */
export function assertRoomForAnswer(exchange: Exchange): void {
  const { answers } = exchange.scope;
  if (answers?.isScarce === true && !answers.hasRoom(keyOf(exchange))) throw noRoomForAnswer();
}

/** The answer is built, and counts until it is sent. Throws when it was given up. */
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
  const charge = answers.share(result, own ?? answers.open(keyOf(exchange)));
  scope.answer = charge;
  // Somebody else's run made it: there may be no room for it here.
  if (!admit(exchange, bytes, isReadOnly ? () => {} : undefined)) throw noRoomForAnswer();
  charge.stop = undefined;
}

function chargeOf(exchange: Exchange): AnswerCharge | undefined {
  const { scope } = exchange;
  scope.answer ??= scope.answers?.open(keyOf(exchange));
  return scope.answer;
}

function keyOf({ caller, scope }: Exchange): string {
  return turnKey(caller, scope);
}
