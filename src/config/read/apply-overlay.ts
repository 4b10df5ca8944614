// An overlay, `svc.<mode>.yaml`, laid over the tree of the other files: maps by their keys, lists and values replaced,
// what is null removed. It changes what differs between environments, and nothing that shapes the database or decides
// who may do what: what was tried in staging is what production gets.
import { childSchema, rootSchema, type SchemaNode } from '../schema/known-keys.ts';
import { renderPath, type KeyPath, type MistakeText } from '../mistakes/mistake.ts';
import { isMap, toRecord, type Read } from './merge-parts.ts';
import type { Place } from './node-table.ts';
import { withChildren } from './tree.ts';

/** A star is any name. */
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
/** Within those. */
const FIXED_KEYS: readonly KeyPath[] = [['auth', 'triggers']];

const CHANGEABLE_HINT =
  'An overlay changes project, database, server, providers, auth, seed, env and timeout of code functions, and limits of realtime and migrations.';

const REASONS: ReadonlyMap<string, string> = new Map([
  ['include', 'an overlay is one file'],
  ['functions', 'every mode runs the same functions'],
  ['functions_bundle', 'every mode runs the same functions'],
]);

export type OverlayResult = Read & {
  /** Paths that the overlay sets or removes. */
  readonly changed: readonly KeyPath[];
  /** Where the overlay removes a key, by its rendered path. */
  readonly removed: ReadonlyMap<string, Place>;
};

/** Called with what an overlay may not say, which then counts for nothing. */
export type OnRejected = (place: Place, mistake: MistakeText) => void;

export function applyOverlay(base: Read, overlay: Read, onRejected: OnRejected): OverlayResult {
  const changed: KeyPath[] = [];
  const removed = new Map<string, Place>();
  const laid = applyMap(base, overlay, { path: [], schema: rootSchema(), changed, removed, onRejected });
  return { ...laid, changed, removed };
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
  const theirs = toRecord(overlay.value);
  const children = new Map(base.place.children);
  for (const [name, place] of overlay.place.children) {
    const path = [...context.path, name];
    if (path.length === 1 && name === 'version') continue;
    // A key with nothing behind it says nothing: all below it may be commented out.
    const isEmpty = place.scalar
      ? place.scalar.written === '' && place.scalar.kind === 'null'
      : theirs[name] === undefined;
    if (isEmpty) continue;
    const schema = childSchema(context.schema, name);
    const next = { value: theirs[name], place };
    const before = children.get(name);
    const standing = findPermission(path, schema);
    const isUnknownFunction = path.length === 2 && path[0] === 'functions' && before === undefined;
    if (standing === 'refused' || (standing === 'partly' && (!isMap(next) || isUnknownFunction))) {
      context.onRejected(place, isUnknownFunction ? unknownFunction(path) : rejection(path));
      continue;
    }
    if (isMap(next) && schema !== undefined) {
      const current = before && { value: value[name], place: before };
      const isLaid = current !== undefined && isMap(current);
      if (before !== undefined && !isLaid) context.changed.push(path);
      const empty = { value: {}, place: withChildren(place, NO_CHILDREN) };
      const laid = applyMap(isLaid ? current : empty, next, { ...context, path, schema });
      children.set(name, laid.place);
      value[name] = laid.value;
      continue;
    }
    context.changed.push(path);
    // Of an unknown key the schema speaks.
    if (place.scalar?.kind === 'null' && schema !== undefined) {
      context.removed.set(renderPath(path), place);
      children.delete(name);
      Reflect.deleteProperty(value, name);
      continue;
    }
    children.set(name, place);
    if (name in theirs) value[name] = theirs[name];
    else Reflect.deleteProperty(value, name);
  }
  return { value, place: withChildren(base.place, children) };
}

/** `partly`: some of what is below it may change. What the schema does not know is left for it to report. */
function findPermission(path: KeyPath, schema: SchemaNode): 'free' | 'partly' | 'refused' {
  if (FIXED_KEYS.some((one) => isBelow(path, one))) return 'refused';
  if (schema === undefined || CHANGEABLE_KEYS.some((one) => isBelow(path, one))) return 'free';
  return CHANGEABLE_KEYS.some((one) => isBelow(one, path)) ? 'partly' : 'refused';
}

/** Or the same. */
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
    message: `there is no code function ${JSON.stringify(path[1])} that this could change`,
    hint: 'Functions are declared in svc.yaml; an overlay changes their env and timeout.',
  };
}

function rejection(path: KeyPath): MistakeText {
  const reason = REASONS.get(String(path[0])) ?? 'it shapes the database, or decides who may do what';
  return {
    code: 'overlay',
    path,
    message: `an overlay cannot change ${path.join('.')}: ${reason}`,
    hint: `Write it into svc.yaml, for all modes. ${CHANGEABLE_HINT}`,
  };
}

const NO_CHILDREN: ReadonlyMap<string, Place> = new Map();
