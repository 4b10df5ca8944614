// Hazards that a run may accept. A flag names the object that it allows, so an old flag in a deploy script does not
// allow new hazards.

export type HazardPolicy = {
  /** `authz_open`, `data_loss=tables.todos.fields.notes`, `rewrite=…`. */
  readonly allow: readonly string[];
  /** Result of a removal. */
  readonly drop: 'retire' | 'refuse' | 'drop';
  /** Rejects changes that may break an instance with the previous file. */
  readonly strictRollout: boolean;
};

export function isAllowed(policy: HazardPolicy, hazard: string, identity: string): boolean {
  return policy.allow.includes(hazard) || policy.allow.includes(`${hazard}=${identity}`);
}
