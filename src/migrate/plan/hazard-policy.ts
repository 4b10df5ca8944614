// Which hazards a run may take without asking. A flag names what it allows, so an old flag in a deploy script covers
// nothing new.

export type HazardPolicy = {
  /** `authz_open`, `data_loss=tables.todos.fields.notes`, `rewrite=…`. */
  readonly allow: readonly string[];
  /** What a removal becomes. */
  readonly drop: 'retire' | 'refuse' | 'drop';
  /** Refuse whatever may break a replica that still runs the previous file. */
  readonly strictRollout: boolean;
};

export function isAllowed(policy: HazardPolicy, hazard: string, identity: string): boolean {
  return policy.allow.includes(hazard) || policy.allow.includes(`${hazard}=${identity}`);
}
