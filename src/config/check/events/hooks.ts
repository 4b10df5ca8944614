// Hooks of auth: their functions exist, have the right signature, and cannot be called by clients.
import type { KeyPath } from '../../mistakes/mistake.ts';
import type { RawHook } from '../../schema/auth.ts';
import { isServed, type RawSqlFunction } from '../../schema/functions.ts';
import { type CheckContext, didYouMean } from '../context.ts';

export function checkHooks(context: CheckContext): void {
  const path = ['auth', 'hooks', 'custom_access_token'];
  const hook = context.file.auth.hooks?.custom_access_token;
  if (hook) checkHook(context, path, hook);
}

function checkHook(context: CheckContext, path: KeyPath, { rpc, function: code }: RawHook): void {
  if (rpc !== undefined && code !== undefined) {
    context.conflict(
      [...path, 'function'],
      'a hook has either rpc or function',
      'Keep one of the two.',
      'key',
    );
  } else if (rpc !== undefined) {
    const fn = context.file.rpc[rpc];
    if (fn) checkSignature(context, rpc, fn);
    else reportUnknown(context, [...path, 'rpc'], { name: rpc, map: 'rpc' });
  } else if (code === undefined) {
    context.report({
      code: 'missing-key',
      path,
      message: 'the hook names no function',
      hint: 'Write rpc: <SQL function> or function: <code function>.',
      part: 'key',
    });
  } else if (!Object.hasOwn(context.file.functions, code)) {
    reportUnknown(context, [...path, 'function'], { name: code, map: 'functions' });
  }
}

function reportUnknown(
  context: CheckContext,
  path: KeyPath,
  { name, map }: { readonly name: string; readonly map: 'rpc' | 'functions' },
): void {
  if (context.broken.touches([map, name])) return;
  context.report({
    code: 'unknown-reference',
    path,
    message: `${map} has no function ${context.show(path, name)}`,
    hint: () => didYouMean(name, Object.keys(context.file[map])) ?? `Declare it under ${map}.`,
  });
}

function checkSignature(context: CheckContext, key: string, fn: RawSqlFunction): void {
  const path = ['rpc', key];
  const [argument] = fn.args;
  const takesJson =
    fn.args.length === 1 &&
    argument?.type.trim().toLowerCase() === 'jsonb' &&
    (argument.mode ?? 'in') === 'in';
  if (!takesJson || fn.kind === 'procedure') {
    context.conflict(
      path,
      'a function of a hook has one argument, of type jsonb',
      'Write args: [{ name: event, type: jsonb }].',
      'key',
    );
  }
  if (fn.returns.trim().toLowerCase() !== 'jsonb') {
    context.conflict(path, 'a function of a hook returns jsonb', 'Write returns: { type: jsonb }.', 'key');
  }
  if (isServed(fn)) {
    context.conflict(
      path,
      'clients could call the function of this hook at /rest/v1/rpc',
      'Add expose: false.',
      'key',
    );
  }
}
