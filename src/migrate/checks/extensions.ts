// Extensions that are to be installed: whether the server has them, and whether this role may.
import { closest } from '../../lib/closest-word.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { quoteIdent, raw } from '../../postgres/sql.ts';
import { createExtensionSql, EXTENSIONS_SCHEMA } from '../schema/sql/extension-sql.ts';
import type { ExtensionModel, SchemaModel } from '../schema/model.ts';
import { type MigrationProblem, problem } from '../problem.ts';

export type ExtensionFacts = {
  /** With the schema that each comes into; null where it decides itself. */
  readonly declared: readonly ExtensionModel[];
  /** Statements that install those that are missing. */
  readonly missing: readonly string[];
  readonly problems: readonly MigrationProblem[];
  readonly notes: readonly string[];
};

type Offered = {
  readonly name: string;
  readonly version: string;
  readonly isDefault: boolean;
  /** Where it must be. */
  readonly schema: string | null;
  readonly requires: readonly string[];
  /** This role may install it. */
  readonly may: boolean;
};

type Installed = {
  readonly name: string;
  readonly schema: string;
  readonly version: string;
  readonly mine: boolean;
};

export async function readExtensionFacts(
  session: Queryable,
  { extensions = [] }: SchemaModel,
): Promise<ExtensionFacts> {
  if (extensions.length === 0) return { declared: [], missing: [], problems: [], notes: [] };
  const installed = new Map(
    (
      await session.query<Installed>(
        raw(`select e.extname as name, n.nspname as schema, e.extversion as version, pg_has_role(e.extowner, 'usage') as mine
          from pg_extension e join pg_namespace n on n.oid = e.extnamespace`),
      )
    ).map((one) => [one.name, one]),
  );
  const isSettled = ({ name, version }: ExtensionModel): boolean => {
    const found = installed.get(name);
    return found !== undefined && (version === null || version === found.version);
  };
  const offered = extensions.every(isSettled) ? [] : await readOffered(session);
  const versionOf = ({ name, version }: ExtensionModel): Offered | undefined =>
    offered.find((one) => one.name === name && (version === null ? one.isDefault : one.version === version));
  const declared = extensions.map((one) => ({
    ...one,
    schema: one.schema ?? (versionOf(one)?.schema ? null : EXTENSIONS_SCHEMA),
  }));
  const missing = declared.filter(({ name }) => !installed.has(name));
  return {
    declared,
    missing: missing.map(createExtensionSql),
    problems: declared
      .filter((one) => !isSettled(one))
      .flatMap((one) => judge(one, versionOf(one), installed, offered)),
    notes: declared.flatMap(({ name, schema }) => {
      const found = installed.get(name);
      if (!found || schema === null || found.schema === schema || found.schema === 'pg_catalog') return [];
      return [`extension ${name} is in the schema ${found.schema}, not in ${schema}, and stays there`];
    }),
  };
}

async function readOffered(session: Queryable): Promise<Offered[]> {
  return session.query<Offered>(
    raw(`select v.name, v.version, v.version = a.default_version as "isDefault", v.schema, coalesce(v.requires, '{}')::text[] as requires,
      r.rolsuper or not v.superuser or (v.trusted and has_database_privilege(current_database(), 'create')) as may
    from pg_available_extension_versions v join pg_available_extensions a on a.name = v.name
    cross join (select rolsuper from pg_roles where rolname = current_user) r`),
  );
}

function judge(
  extension: ExtensionModel,
  version: Offered | undefined,
  installed: ReadonlyMap<string, Installed>,
  offered: readonly Offered[],
): MigrationProblem[] {
  const { name, at } = extension;
  const versions = offered.filter((one) => one.name === name).map((one) => one.version);
  if (versions.length === 0) {
    const near = closest(name, [...new Set(offered.map((one) => one.name))]);
    const hint = near === undefined ? 'Install it on the server first.' : `Did you mean ${near}?`;
    return [problem('MIG-112', at, `this server has no extension ${name}`, hint)];
  }
  const found = installed.get(name);
  if (!version) {
    const list = `It has ${versions.join(', ')}.`;
    return [problem('MIG-112', at, `this server has no version ${extension.version ?? ''} of ${name}`, list)];
  }
  if (found)
    return found.mine
      ? []
      : [refuseRight(at, name, `alter extension ${quoteIdent(name)} update to '${version.version}'`)];
  const needs = version.requires.filter((one) => !installed.has(one));
  if (needs.length > 0 && !extension.cascade && !needs.every((one) => isListed(one, offered)))
    return [problem('MIG-112', at, `${name} needs ${needs.join(', ')}, which this server does not have`)];
  const all = [version, ...(extension.cascade ? needsOf(version, installed, offered) : [])];
  return all.every((one) => one.may) ? [] : [refuseRight(at, name, createExtensionSql(extension))];
}

function isListed(name: string, offered: readonly Offered[]): boolean {
  return offered.some((one) => one.name === name);
}

/** What CASCADE would install. */
function needsOf(
  version: Offered,
  installed: ReadonlyMap<string, Installed>,
  offered: readonly Offered[],
): Offered[] {
  return version.requires
    .filter((name) => !installed.has(name))
    .flatMap((name) => offered.filter((one) => one.name === name && one.isDefault))
    .flatMap((one) => [one, ...needsOf(one, installed, offered)]);
}

function refuseRight(at: string, name: string, statement: string): MigrationProblem {
  return problem(
    'MIG-118',
    at,
    `svc_owner may not install ${name}: it is not a trusted extension`,
    `As an administrator of this database, run once: ${statement};`,
  );
}
