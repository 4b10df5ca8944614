// Names in a shadow: temporary schemas, and labels by which the built objects are found again.
import { randomBytes } from 'node:crypto';

export type ShadowNames = {
  /** Schemas that the shadow builds. */
  readonly schemas: readonly string[];
  /** Prefix of all temporary schema names. */
  readonly prefix: string;
  /** Temporary names of the real schemas, keyed by their real names. */
  readonly temporary: ReadonlyMap<string, string>;
  /** Schema for copies of tables of svc and of materialized views. */
  readonly copies: string;
};

export function createShadowNames(schemas: readonly string[]): ShadowNames {
  const prefix = `svc_live_${randomBytes(8).toString('hex')}`;
  return {
    schemas,
    prefix,
    temporary: new Map(schemas.map((schema, index) => [schema, `${prefix}_${index}`])),
    copies: `${prefix}_copy`,
  };
}

/** The number of the table makes the label unique in the schema. */
export function indexLabel(table: number, position: number): string {
  return `svc_i_${table}_${position}`;
}

export function viewCopyName(number: number): string {
  return `view_${number}`;
}

export function viewIndexLabel(view: number, position: number): string {
  return `svc_v_${view}_${position}`;
}

export function exclusionLabel(table: number, position: number): string {
  return `svc_x_${table}_${position}`;
}

export function domainCheckName(number: number): string {
  return `svc_d_${number}`;
}

export function policyLabel(index: number): string {
  return `p${index}`;
}
