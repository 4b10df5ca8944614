// Calls a function for svc itself, for example a hook of auth: a POST with a JSON body and without a caller.
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FunctionCall, FunctionOutcome } from '../../http/feature.ts';
import { Problem } from '../../problem/problem.ts';
import type { ServedFunction } from '../generation.ts';
import type { RequestHead } from '../worker/protocol.ts';
import type { WorkerPool } from './worker-pool.ts';

export async function callInternally(
  pool: WorkerPool,
  { fn, envJson }: ServedFunction,
  { body, caller, clientAddress, requestId = randomUUID(), timeoutMs, maxBytes }: FunctionCall,
): Promise<FunctionOutcome> {
  const head: Omit<RequestHead, 'env'> = {
    functionName: fn.name,
    requestId,
    method: 'POST',
    path: `/functions/v1/${fn.name}`,
    rawQuery: '',
    rawHeaders: ['content-type', 'application/json'],
    clientAddress,
    claims: null,
    // Clients cannot call the function, so it can have the service client.
    serviceRole: true,
  };
  const running = pool.run({
    functionName: fn.name,
    requestId,
    caller,
    head: `${JSON.stringify(head).slice(0, -1)},"env":${envJson}}`,
    body: Buffer.from(body),
    serviceRole: true,
    timeoutMs,
  });
  try {
    const { status, body: answer } = await running.answer;
    const bytes = answer instanceof Readable ? await readUpTo(answer, maxBytes) : (answer ?? Buffer.alloc(0));
    if (bytes === undefined || bytes.length > maxBytes) return { kind: 'too-large' };
    return { kind: 'answer', status, text: bytes.toString('utf8') };
  } catch (error) {
    if (!(error instanceof Problem)) return { kind: 'failed', why: 'the answer of the function broke off' };
    if (error.code === 'function_timeout') return { kind: 'timeout' };
    return error.status === 500 ? { kind: 'failed', why: error.code } : { kind: 'busy' };
  }
}

/** Returns undefined and ends the stream if it is longer. */
async function readUpTo(body: Readable, maxBytes: number): Promise<Buffer | undefined> {
  const parts: Buffer[] = [];
  let length = 0;
  // Leaving the loop destroys the stream, which cancels the call.
  for await (const chunk of body as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > maxBytes) return undefined;
    parts.push(chunk);
  }
  return Buffer.concat(parts);
}
