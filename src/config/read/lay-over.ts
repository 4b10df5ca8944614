// An overlay, `svc.<mode>.yaml`, laid over the tree of the other files: maps by their keys, lists and values replaced,
// what is null removed. It changes what differs between environments, and nothing that shapes the database or decides
// who may do what: what was tried in staging is what production gets.
import { childSchema, rootSchema, type SchemaNode } from '../schema/known-keys.ts';
import type { KeyPath, MistakeText } from '../mistakes/mistake.ts';
import { isMap, toRecord, type Read } from './merge-parts.ts';
import type { Place } from './tree.ts';

/** A star is any name. */
const MAY_CHANGE: readonly KeyPath[] = [
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
const MAY_NOT_CHANGE: readonly KeyPath[] = [['auth', 'triggers']];

const CHANGEABLE =
  'An overlay changes project, database, server, providers, auth, seed, env and timeout of code functions, and limits of realtime and migrations.';

const REASONS: ReadonlyMap<string, string> = new Map([
  ['include', 'an overlay is one file'],
  ['functions', 'every mode runs the same functions'],
  ['functions_bundle', 'every mode runs the same functions'],
]);

export type LaidOver = Read & {
  /** Paths that the overlay sets or removes. */
  readonly changed: readonly KeyPath[];
};

/** Called with what an overlay may not say, which then counts for nothing. */
export type OnRefused = (place: Place, mistake: MistakeText) => void;

export function layOver(base: Read, overlay: Read, onRefused: OnRefused): LaidOver {
  const changed: KeyPath[] = [];
  const laid = layMap(base, overlay, { path: [], schema: rootSchema(), changed, onRefused });
  return { ...laid, changed };
}

type Context = {
  readonly path: KeyPath;
  readonly schema: SchemaNode;
  readonly changed: KeyPath[];
  readonly onRefused: OnRefused;
};

function layMap(base: Read, overlay: Read, context: Context): Read {
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
    const standing = standingOf(path, schema);
    const isUnknownFunction = path.length === 2 && path[0] === 'functions' && before === undefined;
    if (standing === 'refused' || (standing === 'partly' && (!isMap(next) || isUnknownFunction))) {
      context.onRefused(place, isUnknownFunction ? unknownFunction(path) : refusalOf(path));
      continue;
    }
    if (isMap(next) && schema !== undefined) {
      const current = before && { value: value[name], place: before };
      const isLaid = current !== undefined && isMap(current);
      if (before !== undefined && !isLaid) context.changed.push(path);
      const empty = { value: {}, place: { ...place, children: NO_CHILDREN } };
      const laid = layMap(isLaid ? current : empty, next, { ...context, path, schema });
      children.set(name, laid.place);
      value[name] = laid.value;
      continue;
    }
    context.changed.push(path);
    // Of an unknown key the schema speaks.
    if (place.scalar?.kind === 'null' && schema !== undefined) {
      children.delete(name);
      Reflect.deleteProperty(value, name);
      continue;
    }
    children.set(name, place);
    if (name in theirs) value[name] = theirs[name];
    else Reflect.deleteProperty(value, name);
  }
  return { value, place: { ...base.place, children } };
}

/** `partly`: some of what is below it may change. What the schema does not know is left for it to report. */
function standingOf(path: KeyPath, schema: SchemaNode): 'free' | 'partly' | 'refused' {
  if (MAY_NOT_CHANGE.some((one) => isBelow(path, one))) return 'refused';
  if (schema === undefined || MAY_CHANGE.some((one) => isBelow(path, one))) return 'free';
  return MAY_CHANGE.some((one) => isBelow(one, path)) ? 'partly' : 'refused';
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

function refusalOf(path: KeyPath): MistakeText {
  const reason = REASONS.get(String(path[0])) ?? 'it shapes the database, or decides who may do what';
  return {
    code: 'overlay',
    path,
    message: `an overlay cannot change ${path.join('.')}: ${reason}`,
    hint: `Write it into svc.yaml, for all modes. ${CHANGEABLE}`,
  };
}

const NO_CHILDREN: ReadonlyMap<string, Place> = new Map();
