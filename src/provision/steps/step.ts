/** One numbered piece of the product's own schemas. A released step is never edited; a new one is added. */
export type ProvisionStep = {
  /** Unique and stable, for example `auth-1`; recorded in `svc_meta.provision_step`. */
  readonly id: string;
  /** Runs inside one transaction, as `svc_owner`. */
  readonly sql: string;
};
