// Applies an overlay, `svc.<mode>.yaml`, to the tree of the other files. Maps are merged, lists and values are
// replaced, and null removes a key. An overlay can change settings that differ between environments, but neither the
// schema of the database nor permissions. Production therefore gets what was tested in staging.
import { childSchema, rootSchema, type SchemaNode } from '../schema/known-keys.ts';
import { renderPath, type KeyPath, type MistakeText } from '../mistakes/mistake.ts';
import { isMap, toRecord, type Read } from './merge-parts.ts';
import type { Place } from './node-table.ts';
import { withChildren } from './tree.ts';

/** `*` matches any name. */
const CHANGEABLE_KEYS: readonly KeyPath[] = [
  ['project'],
  ['database'],
  ['server'],
  ['providers'],
  ['auth'],
  ['realtime', 'limits'],
  ['realtime', 'retention'],
  ['functions', '*', 'env'],
  ['functions', '*', 'timeout'],
  ['seed'],
  ['migrations', 'prune_after'],
  ['migrations', 'lock_timeout'],
  ['migrations', 'lock_budget'],
  ['migrations', 'boot_budget'],
  ['migrations', 'max_write_block'],
];
/** Exceptions within the changeable keys. */
const FIXED_KEYS: readonly KeyPath[] = [['auth', 'triggers']];

const CHANGEABLE_HINT =
  'An overlay can change project, database, server, providers, auth, seed, env and timeout of code functions, ' +
  'and limits of realtime and migrations.';

const REASONS: ReadonlyMap<string, string> = new Map([
  ['include', 'an overlay consists of a single file'],
  ['functions', 'every mode runs the same functions'],
  ['functions_bundle', 'every mode runs the same functions'],
]);

export type OverlayResult = Read & {
  /** Paths that the overlay sets or removes. */
  readonly changed: readonly KeyPath[];
  /** Places where the overlay removes a key, by rendered path. */
  readonly removed: ReadonlyMap<string, Place>;
};

/** Called with each key that an overlay cannot change. The key is then ignored. */
export type OnRejected = (place: Place, mistake: MistakeText) => void;

export function applyOverlay(base: Read, overlay: Read, onRejected: OnRejected): OverlayResult {
  const changed: KeyPath[] = [];
  const removed = new Map<string, Place>();
  const merged = applyMap(base, overlay, { path: [], schema: rootSchema(), changed, removed, onRejected });
  return { ...merged, changed, removed };
}

type Context = {
  readonly path: KeyPath;
  readonly schema: SchemaNode;
  readonly changed: KeyPath[];
  readonly removed: Map<string, Place>;
  readonly onRejected: OnRejected;
};

function applyMap(base: Read, overlay: Read, context: Context): Read {
  const value: Record<string, unknown> = { ...toRecord(base.value) };
  const overlayValues = toRecord(overlay.value);
  const children = new Map(base.place.children);
  for (const [name, place] of overlay.place.children) {
    const path = [...context.path, name];
    if (path.length === 1 && name === 'version') continue;
    // Ignore a key without a value, because everything below it may be commented out.
    const isEmpty = place.scalar
      ? place.scalar.written === '' && place.scalar.kind === 'null'
      : overlayValues[name] === undefined;
    if (isEmpty) continue;
    const schema = childSchema(context.schema, name);
    const next = { value: overlayValues[name], place };
    const before = children.get(name);
    const permission = findPermission(path, schema);
    const isUnknownFunction = path.length === 2 && path[0] === 'functions' && before === undefined;
    if (permission === 'denied' || (permission === 'partial' && (!isMap(next) || isUnknownFunction))) {
      context.onRejected(place, isUnknownFunction ? unknownFunction(path) : rejection(path));
      continue;
    }
    if (isMap(next) && schema !== undefined) {
      const current = before && { value: value[name], place: before };
      const canMerge = current !== undefined && isMap(current);
      if (before !== undefined && !canMerge) context.changed.push(path);
      const empty = { value: {}, place: withChildren(place, NO_CHILDREN) };
      const merged = applyMap(canMerge ? current : empty, next, { ...context, path, schema });
      children.set(name, merged.place);
      value[name] = merged.value;
      continue;
    }
    context.changed.push(path);
    // The schema reports unknown keys.
    if (place.scalar?.kind === 'null' && schema !== undefined) {
      context.removed.set(renderPath(path), place);
      children.delete(name);
      Reflect.deleteProperty(value, name);
      continue;
    }
    children.set(name, place);
    if (name in overlayValues) value[name] = overlayValues[name];
    else Reflect.deleteProperty(value, name);
  }
  return { value, place: withChildren(base.place, children) };
}

/** `partial`: some keys below may change. Unknown keys are left to the schema. */
function findPermission(path: KeyPath, schema: SchemaNode): 'allowed' | 'partial' | 'denied' {
  if (FIXED_KEYS.some((fixed) => isBelow(path, fixed))) return 'denied';
  if (schema === undefined || CHANGEABLE_KEYS.some((key) => isBelow(path, key))) return 'allowed';
  return CHANGEABLE_KEYS.some((key) => isBelow(key, path)) ? 'partial' : 'denied';
}

/** Returns true also for equal paths. */
export function isBelow(path: KeyPath, start: KeyPath): boolean {
  return (
    start.length <= path.length &&
    start.every((step, n) => step === path[n] || step === '*' || path[n] === '*')
  );
}

function unknownFunction(path: KeyPath): MistakeText {
  return {
    code: 'overlay',
    path,
    message: `svc.yaml has no code function ${JSON.stringify(path[1])}`,
    hint: 'Declare the function in svc.yaml. An overlay can only change its env and timeout.',
  };
}

function rejection(path: KeyPath): MistakeText {
  const reason = REASONS.get(String(path[0])) ?? 'it affects the database schema or permissions';
  return {
    code: 'overlay',
    path,
    message: `an overlay cannot change ${path.join('.')}: ${reason}`,
    hint: `Write it in svc.yaml, for all modes. ${CHANGEABLE_HINT}`,
  };
}

const NO_CHILDREN: ReadonlyMap<string, Place> = new Map();
