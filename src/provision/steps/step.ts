/** A numbered change of the internal schemas. Never edit the statements of a released step: add a new step. */
export type ProvisionStep = {
  /** Unique and stable, for example `auth-1`. Recorded in `svc_meta.provision_step`. */
  readonly id: string;
  /** Statements that run in one transaction as `svc_owner`. */
  readonly sql: string;
  /** Oldest version of svc that works after this step, for example `1.3.0`. Absent if the step is compatible. */
  readonly minVersion?: string;
};
