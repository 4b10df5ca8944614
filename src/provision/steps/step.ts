/** One numbered piece of the product's own schemas. A released step is never edited; a new one is added. */
export type ProvisionStep = {
  /** Unique and stable, for example `auth-1`; recorded in `svc_meta.provision_step`. */
  readonly id: string;
  /** Runs inside one transaction, as `svc_owner`. */
  readonly sql: string;
  /** The oldest version of svc that still works after this step, for example `1.3.0`; absent: all do that know nothing of it. */
  readonly minVersion?: string;
};
