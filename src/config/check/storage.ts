// Buckets: names that the storage API accepts.
import { RESERVED_BUCKETS } from '../schema/names.ts';
import type { CheckContext } from './context.ts';
import { checkPolicies } from './tables/policies.ts';

export function checkBuckets(context: CheckContext): void {
  for (const [name, bucket] of Object.entries(context.file.storage)) {
    if (context.isFull) return;
    const path = ['storage', name];
    if (RESERVED_BUCKETS.has(name)) {
      context.report({
        code: 'reserved-name',
        path,
        message: `a bucket cannot be called ${name}: the storage API uses that path`,
        hint: 'Choose another name.',
        part: 'key',
      });
    } else if (!/^[\w!.*'() &$@=;:+,?-]{1,100}$/.test(name) || name.trim() !== name || /^\.+$/.test(name)) {
      context.badValue(
        path,
        `${JSON.stringify(name)} is not a bucket name`,
        'Use letters, digits, - and _, at most 100 characters.',
        'key',
      );
    }
    checkPolicies(context, [...path, 'rls'], bucket.rls);
  }
}
