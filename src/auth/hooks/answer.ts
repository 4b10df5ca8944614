// Reads the answer of a hook: an object, or an error object whose message is for the client.
import { isJsonObject, type JsonObject } from '../fields.ts';

/** Maximum size of an answer, in bytes of JSON. */
export const MAX_ANSWER_BYTES = 200_000;
const MAX_MESSAGE_LENGTH = 500;

export type HookAnswer =
  | { readonly kind: 'answer'; readonly body: JsonObject }
  /** The hook refuses the action. `status` is between 400 and 599. */
  | { readonly kind: 'refusal'; readonly status: number; readonly message: string }
  /** The hook is at fault. `why` is for the log and contains nothing of the answer. */
  | { readonly kind: 'fault'; readonly why: string };

export function readAnswer(text: string): HookAnswer {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return { kind: 'fault', why: 'the answer is not JSON' };
  }
  if (!isJsonObject(body)) return { kind: 'fault', why: 'the answer is not a JSON object' };
  const { error } = body;
  if (isJsonObject(error) && typeof error['message'] === 'string' && error['message'] !== '') {
    const status = error['http_code'];
    const isError = typeof status === 'number' && Number.isInteger(status) && status >= 400 && status <= 599;
    return {
      kind: 'refusal',
      status: isError ? status : 500,
      message: error['message'].slice(0, MAX_MESSAGE_LENGTH),
    };
  }
  return { kind: 'answer', body };
}
