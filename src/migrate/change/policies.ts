// Traits of changes to policies and grants of tables.
import { objectKey } from '../schema/model.ts';
import { policiesKey, wordKeys } from './object-key.ts';
import type { TraitsByKind } from './trait-types.ts';

export const POLICY_TRAITS = {
  'create-policy': {
    provides: ({ table }) => [policiesKey(table)],
    requires: ({ table, policy }) => [policiesKey(table), ...wordKeys('name', policy.using, policy.check)],
  },
  'drop-policy': {
    provides: ({ table }) => [policiesKey(table)],
    requires: ({ table, policy }) => [policiesKey(table), ...wordKeys('name', policy.using, policy.check)],
    removes: ({ table, policy }) => [{ kind: 'policy', table: objectKey(table), label: policy.label }],
    holds: ({ policy }) => [policy.using, policy.check],
  },
  'create-hosted-policy': {
    provides: ({ host }) => [`policies ${host}`],
    requires: ({ host, policy }) => [`policies ${host}`, ...wordKeys('name', policy.using, policy.check)],
  },
  'drop-hosted-policy': {
    provides: ({ host }) => [`policies ${host}`],
    requires: ({ host, policy }) => [`policies ${host}`, ...wordKeys('name', policy.using, policy.check)],
    removes: ({ host, policy }) => [{ kind: 'policy', table: host, label: policy.label }],
    holds: ({ policy }) => [policy.using, policy.check],
  },
  'enable-rls': { requires: ({ table }) => [policiesKey(table)] },
  'disable-rls': { requires: ({ table }) => [policiesKey(table)] },
  'unforce-rls': { requires: ({ table }) => [policiesKey(table)] },
  'grant-table': { requires: ({ table }) => [policiesKey(table)] },
} satisfies Partial<TraitsByKind>;
