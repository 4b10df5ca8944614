// Changes of types before the comparison: renames of types and enum values, and replacements of enums that lose or
// reorder values. PostgreSQL cannot change an enum in this way. So the old type gets another name, and each column
// that uses it gets a type change.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';
import type { Live, LiveType } from '../../schema/live/live-schema.ts';
import { replacedTypeLabel } from '../../schema/label.ts';
import type { Ownership } from '../../schema/managed.ts';
import { objectKey, quoteName, tableKey, type EnumModel, type TypeModel } from '../../schema/model.ts';
import { createTypeSql } from '../../schema/types.ts';
import { problem, type MigrationProblem } from '../../problem.ts';
import { type HazardPolicy, isAllowed } from '../hazard-policy.ts';
import { stepOf } from '../step-list.ts';
import type { Step } from '../step.ts';

type FormerNames = NonNullable<LiveType['former']>;

export class TypeRenames {
  readonly steps: Step[] = [];
  readonly problems: MigrationProblem[] = [];
  readonly notes: string[] = [];
  readonly forgotten: string[] = [];
  /** Live types by their new `schema.name`. */
  readonly former = new Map<string, FormerNames>();
  /** Owned types by their new names. */
  readonly owned: Set<string>;
  readonly retired: Set<string>;
  readonly #live: Live['types'];
  readonly #policy: HazardPolicy;

  constructor(live: Live['types'], owned: Ownership, policy: HazardPolicy) {
    this.#live = live;
    this.#policy = policy;
    this.owned = new Set(owned.types);
    this.retired = new Set(owned.retiredTypes);
  }

  add(model: TypeModel): void {
    const found = this.#renamed(model);
    if (!found) return;
    if (found.kind !== model.kind) {
      this.problems.push(
        problem(
          'MIG-207',
          model.at,
          `${model.name} is a type of the database already: the file has it as ${model.kind}, and there it is ${found.kind}`,
          `Choose another name, or rename that one first: alter type ${quoteName(found)} rename to …;`,
        ),
      );
      return;
    }
    if (model.kind !== 'enum') return;
    const values = this.#renamedValues(model, found);
    const known = new Set(values);
    const removed = values.filter((value) => !model.values.includes(value));
    const kept = model.values.filter((value) => known.has(value));
    if (removed.length > 0) this.#replace(model, found, `without ${removed.join(', ')}`);
    else if (kept.some((value, n) => value !== values[n])) this.#reorder(model, found, values);
  }

  #renamed(model: TypeModel): LiveType | undefined {
    const key = objectKey(model);
    const found = this.#live.get(key);
    const { renamedFrom = model.name } = model;
    if (renamedFrom === model.name) return found;
    const oldKey = tableKey(model.schema, renamedFrom);
    const old = this.#live.get(oldKey);
    const isOwned = this.owned.has(oldKey) || this.retired.has(oldKey);
    if (old && found && this.owned.has(oldKey))
      this.problems.push(
        problem(
          'MIG-206',
          model.at,
          `renamed_from: ${renamedFrom}, but both ${renamedFrom} and ${model.name} exist`,
          'Give the columns of the one the type of the other yourself, then remove renamed_from.',
        ),
      );
    if (found || (!old && !isOwned)) return found;
    this.owned.delete(oldKey);
    this.retired.delete(oldKey);
    this.owned.add(key);
    this.forgotten.push(`type ${oldKey}`);
    if (!old) return found;
    this.#step(
      model,
      `alter type ${quoteName(old)} rename to ${quoteIdent(model.name)}`,
      `rename type ${old.name} → ${model.name}`,
    );
    this.former.set(key, { name: old.name, values: new Map() });
    return old;
  }

  /** Returns the values after the renames. */
  #renamedValues(model: TypeModel & EnumModel, found: LiveType): string[] {
    const values = new Map<string, string>();
    for (const [old, now] of Object.entries(model.renamedValues ?? {})) {
      if (!found.values.includes(old) || found.values.includes(now)) continue;
      values.set(now, old);
      this.#step(
        model,
        `alter type ${quoteName(model)} rename value ${quoteLiteral(old)} to ${quoteLiteral(now)}`,
        `rename value ${old} → ${now} of type ${model.name}`,
      );
    }
    const name = this.former.get(objectKey(model))?.name ?? model.name;
    if (values.size > 0) this.former.set(objectKey(model), { name, values });
    const renamed = new Map([...values].map(([now, old]) => [old, now]));
    return found.values.map((value) => renamed.get(value) ?? value);
  }

  #replace(model: TypeModel, found: LiveType, how: string): void {
    const aside = replacedTypeLabel(found.oid);
    this.#step(
      model,
      `alter type ${quoteName(model)} rename to ${quoteIdent(aside)}; ${createTypeSql({ model })}`,
      `type ${model.name} made again ${how}`,
    );
    // The new type is complete.
    this.former.delete(objectKey(model));
    this.former.set(tableKey(model.schema, aside), { name: model.name, values: new Map() });
  }

  #reorder(model: TypeModel, found: LiveType, values: readonly string[]): void {
    if (isAllowed(this.#policy, 'rewrite', model.at)) return this.#replace(model, found, 'in another order');
    this.notes.push(
      `type ${model.name} has its values in another order in the database (${values.join(', ')}): --allow rewrite=${model.at} gives it that of the file`,
    );
  }

  #step(model: TypeModel, sql: string, summary: string): void {
    this.steps.push(
      stepOf({
        sql,
        stage: 'rename',
        identity: model.at,
        sign: '~',
        summary,
        hazards: ['BREAKS_OLD_CODE'],
      }),
    );
  }
}
