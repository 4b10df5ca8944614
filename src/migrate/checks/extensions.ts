// Checks whether the server provides the declared extensions, and whether this role can install them.
import { closest } from '../../lib/text/closest-word.ts';
import type { Queryable } from '../../postgres/owner-database.ts';
import { EMBEDDED_SETTING } from '../../embedded-postgres/embedded-setting.ts';
import { quoteIdent, quoteLiteral, raw } from '../../postgres/sql.ts';
import {
  administratorExtensionSql,
  createExtensionSql,
  EXTENSIONS_SCHEMA,
} from '../schema/sql/extension-sql.ts';
import type { ExtensionModel, SchemaModel } from '../schema/model.ts';
import { type MigrationProblem, problem } from '../problem.ts';
import type { ForeignObject } from './ownership.ts';

export type ExtensionFacts = {
  /** Declared extensions with their target schemas. Null if the extension determines its schema. */
  readonly declared: readonly ExtensionModel[];
  /** Statements that install the missing extensions. */
  readonly missing: readonly string[];
  readonly problems: readonly MigrationProblem[];
  /** Extensions that this role cannot install or update, with the statement for a role that can. */
  readonly restricted: readonly ForeignObject[];
  readonly notes: readonly string[];
};

type AvailableVersion = {
  readonly name: string;
  readonly version: string;
  readonly isDefault: boolean;
  /** Fixed schema of the extension, or null. */
  readonly schema: string | null;
  readonly requires: readonly string[];
  /** Whether this role can install it. */
  readonly canInstall: boolean;
};

type InstalledExtension = {
  readonly name: string;
  readonly schema: string;
  readonly version: string;
  readonly isOwned: boolean;
};

export async function readExtensionFacts(
  session: Queryable,
  { extensions = [] }: SchemaModel,
): Promise<ExtensionFacts> {
  if (extensions.length === 0) return { declared: [], missing: [], problems: [], restricted: [], notes: [] };
  const installed = new Map(
    (
      await session.query<InstalledExtension>(
        raw(`select e.extname as name, n.nspname as schema, e.extversion as version,
            pg_has_role(e.extowner, 'usage') as "isOwned"
          from pg_extension e join pg_namespace n on n.oid = e.extnamespace`),
      )
    ).map((extension) => [extension.name, extension]),
  );
  const isSatisfied = ({ name, version }: ExtensionModel): boolean => {
    const found = installed.get(name);
    return found !== undefined && (version === null || version === found.version);
  };
  const offered = extensions.every(isSatisfied) ? [] : await readAvailableVersions(session);
  const findVersion = ({ name, version }: ExtensionModel): AvailableVersion | undefined =>
    offered.find(
      (candidate) =>
        candidate.name === name && (version === null ? candidate.isDefault : candidate.version === version),
    );
  const declared = extensions.map((extension) => ({
    ...extension,
    schema: extension.schema ?? (findVersion(extension)?.schema ? null : EXTENSIONS_SCHEMA),
  }));
  const missing = declared.filter(({ name }) => !installed.has(name));
  const verdicts = declared
    .filter((extension) => !isSatisfied(extension))
    .map((extension) => checkExtension(extension, findVersion(extension), installed, offered));
  const problems = verdicts.flatMap((verdict) => verdict.problems ?? []);
  return {
    declared,
    missing: missing.map(createExtensionSql),
    problems: problems.some(({ hint }) => hint === INSTALL_PACKAGE)
      ? await explainMissing(session, problems)
      : problems,
    restricted: verdicts.flatMap((verdict) => verdict.restricted ?? []),
    notes: declared.flatMap(({ name, schema }) => {
      const found = installed.get(name);
      if (!found || schema === null || found.schema === schema || found.schema === 'pg_catalog') return [];
      return [`extension ${name} is in the schema ${found.schema}, not in ${schema}, and stays there`];
    }),
  };
}

const INSTALL_PACKAGE = 'Install the package of the extension on the server first.';

/** Changes the hints for the development database, in which no further packages can be installed. */
async function explainMissing(
  session: Queryable,
  problems: readonly MigrationProblem[],
): Promise<readonly MigrationProblem[]> {
  const [row] = await session.query<{ embedded: boolean }>(
    raw(`select coalesce(current_setting('${EMBEDDED_SETTING}', true), '') = 'on' as embedded`),
  );
  if (row?.embedded !== true) return problems;
  return problems.map((refusal) =>
    refusal.hint === INSTALL_PACKAGE ? { ...refusal, ...developmentMessage(refusal) } : refusal,
  );
}

function developmentMessage({ at, message }: MigrationProblem): Pick<MigrationProblem, 'message' | 'hint'> {
  return {
    message: message.replace('this server has no extension', 'the development database does not include'),
    hint:
      'It includes only the extensions of PostgreSQL. Set SVC_DATABASE_URL to a ' +
      `server that has ${at.replace(/^extensions\./, '')}.`,
  };
}

async function readAvailableVersions(session: Queryable): Promise<AvailableVersion[]> {
  return session.query<AvailableVersion>(
    raw(`select v.name, v.version, v.version = a.default_version as "isDefault", v.schema,
      coalesce(v.requires, '{}')::text[] as requires,
      r.rolsuper or not v.superuser 
        or (v.trusted and has_database_privilege(current_database(), 'create')) as "canInstall"
    from pg_available_extension_versions v join pg_available_extensions a on a.name = v.name
    cross join (select rolsuper from pg_roles where rolname = current_user) r`),
  );
}

type Verdict = { readonly problems?: readonly MigrationProblem[]; readonly restricted?: ForeignObject };

function checkExtension(
  extension: ExtensionModel,
  version: AvailableVersion | undefined,
  installed: ReadonlyMap<string, InstalledExtension>,
  offered: readonly AvailableVersion[],
): Verdict {
  const { name, at } = extension;
  const reject = (message: string, hint?: string): Verdict => ({
    problems: [problem('MIG-112', at, message, hint)],
  });
  const versions = offered
    .filter((candidate) => candidate.name === name)
    .map((candidate) => candidate.version);
  if (versions.length === 0) {
    const near = closest(name, [...new Set(offered.map((candidate) => candidate.name))]);
    return reject(
      `this server has no extension ${name}`,
      near === undefined ? INSTALL_PACKAGE : `Did you mean ${near}?`,
    );
  }
  const found = installed.get(name);
  if (!version)
    return reject(
      `this server has no version ${extension.version ?? ''} of ${name}`,
      `It has ${versions.join(', ')}.`,
    );
  const restricted = (sql: string): Verdict => ({
    restricted: { at, what: 'extension', name, owner: 'an administrator', sql },
  });
  if (found)
    return found.isOwned
      ? {}
      : restricted(`alter extension ${quoteIdent(name)} update to ${quoteLiteral(version.version)}`);
  const needs = version.requires.filter((required) => !installed.has(required));
  if (needs.length > 0 && !extension.cascade && !needs.every((required) => isAvailable(required, offered)))
    return reject(`${name} needs ${needs.join(', ')}, which this server does not have`);
  const all = [version, ...(extension.cascade ? requiredExtensions(version, installed, offered) : [])];
  return all.every((candidate) => candidate.canInstall)
    ? {}
    : restricted(administratorExtensionSql(extension));
}

function isAvailable(name: string, offered: readonly AvailableVersion[]): boolean {
  return offered.some((candidate) => candidate.name === name);
}

/** Returns the extensions that CASCADE would install. */
function requiredExtensions(
  version: AvailableVersion,
  installed: ReadonlyMap<string, InstalledExtension>,
  offered: readonly AvailableVersion[],
): AvailableVersion[] {
  return version.requires
    .filter((name) => !installed.has(name))
    .flatMap((name) => offered.filter((candidate) => candidate.name === name && candidate.isDefault))
    .flatMap((candidate) => [candidate, ...requiredExtensions(candidate, installed, offered)]);
}
