// Converts statements of all SQL files into keys of svc.yaml, per file. Comments and grants become part of their
// objects, wherever these are declared. The order of files and statements therefore has no effect.
import type { CommentStmt, GrantStmt, Node } from '@pgsql/types';
import type { MistakeCode } from '../mistakes/mistake.ts';
import { type Declaration, statementHead, refuse, Refusal, type Written } from './declaration.ts';
import { declareFunction } from './functions.ts';
import { namesIn, LocatedValue, type KeyMap, type KeyValue } from './key-nodes.ts';
import { areOverloads, renderSignature, writtenInputs } from './overloads.ts';
import { parseSql, type Extent } from './parser.ts';
import { describeUnsupported } from './unsupported.ts';
import { declareSequence } from './sequences.ts';
import { aggregateNamed, commentedStatement, completedBy, declareStatement } from './statements.ts';
import { declareTrigger } from './triggers.ts';
import { declareComposite, declareDomain, declareEnum } from './types.ts';
import { declareMaterialized, declareView } from './views.ts';

export type SqlFile = {
  /** Name in messages. */
  readonly name: string;
  readonly text: string;
};

/** Declarations of the YAML files that affect how a statement is read. */
export type YamlDeclarations = {
  readonly tables: ReadonlySet<string>;
  readonly views: ReadonlySet<string>;
  /** Entries under `expose`, by `schema.name`. */
  readonly exposedFunctions: ReadonlyMap<string, { readonly authRequired: boolean }>;
  readonly exposedRelations: ReadonlySet<string>;
};

export type SqlProblem = {
  readonly file: SqlFile;
  readonly extent: Extent;
  readonly code: MistakeCode;
  readonly message: string;
  readonly hint: string;
};

export type FromSql = {
  /** Keys per file, in the order of the files. */
  readonly keys: readonly KeyMap[];
  readonly problems: readonly SqlProblem[];
};

export function toKeys(files: readonly SqlFile[], yaml: YamlDeclarations): FromSql {
  return new Reader(files, yaml).read();
}

type DeclaredObject = Declaration & {
  readonly file: SqlFile;
  /** Roles that can execute it, or privileges by role. Empty before any GRANT or REVOKE. */
  grants: Map<string, Set<string>>;
  comment?: KeyValue;
  /** ALTER statements that complete it. */
  readonly alter: string[];
};

/** Order of the configuration. */
const VIEW_PRIVILEGES = ['select', 'insert', 'update', 'delete'];
const API_ROLES = ['anon', 'authenticated', 'service_role'];

class Reader {
  readonly #files: readonly SqlFile[];
  readonly #yaml: YamlDeclarations;
  readonly #declared: DeclaredObject[] = [];
  readonly #problems: SqlProblem[] = [];
  /** Statements that refer to objects. They run after all objects have been declared. */
  readonly #later: Array<() => void> = [];

  constructor(files: readonly SqlFile[], yaml: YamlDeclarations) {
    this.#files = files;
    this.#yaml = yaml;
  }

  read(): FromSql {
    for (const file of this.#files) this.#readFile(file);
    for (const apply of this.#later) apply();
    return { keys: this.#files.map((file) => this.#collectKeys(file)), problems: this.#problems };
  }

  #readFile(file: SqlFile): void {
    const parsed = parseSql(file.text);
    if (!parsed.ok) {
      const { offset, message } = parsed;
      const hint = file.text.startsWith('\\', offset)
        ? 'Remove the command of psql: commands that begin with a backslash are not SQL.'
        : 'Write the statement as psql accepts it, and end it with a semicolon.';
      this.#report(file, { start: offset, end: offset + 1 }, 'sql', message, hint);
      return;
    }
    for (const statement of parsed.statements) {
      const written = { statement, text: file.text };
      this.#guarded(file, () => this.#readStatement(file, written, statement.node));
    }
  }

  #guarded(file: SqlFile, work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.#report(file, error.extent, 'sql', error.message, error.hint);
    }
  }

  #report(file: SqlFile, extent: Extent, code: MistakeCode, message: string, hint: string): void {
    this.#problems.push({ file, extent, code, message, hint });
  }

  #readStatement(file: SqlFile, written: Written, node: Node): void {
    const make = (declaration: Declaration): void => this.#make(file, written, declaration);
    if ('CreateFunctionStmt' in node) make(declareFunction(written, node.CreateFunctionStmt));
    else if ('ViewStmt' in node) make(declareView(written, node.ViewStmt));
    else if ('CreateTableAsStmt' in node && node.CreateTableAsStmt.objtype === 'OBJECT_MATVIEW')
      make(declareMaterialized(written, node.CreateTableAsStmt));
    else if ('CreateTrigStmt' in node) make(declareTrigger(written, node.CreateTrigStmt));
    else if ('CreateEnumStmt' in node) make(declareEnum(written, node.CreateEnumStmt));
    else if ('CompositeTypeStmt' in node) make(declareComposite(written, node.CompositeTypeStmt));
    else if ('CreateDomainStmt' in node) make(declareDomain(written, node.CreateDomainStmt));
    else if ('CreateSeqStmt' in node) make(declareSequence(written, node.CreateSeqStmt));
    // Ignore owners: svc owns all objects of the file.
    else if (isAboutOwner(node)) return;
    else if ('CommentStmt' in node) this.#afterwards(file, () => this.#comment(written, node.CommentStmt));
    else if ('GrantStmt' in node) this.#afterwards(file, () => this.#grant(written, node.GrantStmt));
    else this.#readOther(file, written, node);
  }

  /** Reads an object without its own key, or rejects the statement. */
  #readOther(file: SqlFile, written: Written, node: Node): void {
    const completed = completedBy(node);
    const declaration = declareStatement(written, node);
    if (declaration !== undefined) this.#make(file, written, declaration);
    else if (completed !== undefined) this.#afterwards(file, () => this.#complete(written, completed));
    else {
      const { label, hint } = describeUnsupported(node);
      refuse(written, `${label} is not supported in an SQL file`, hint);
    }
  }

  #complete(written: Written, name: string): void {
    const declared = this.#find('statements', name);
    if (!declared) refuse(written, `no SQL file creates the ${name}`, 'Add its CREATE statement.');
    const { start, end } = written.statement;
    declared.alter.push(written.text.slice(start, end));
  }

  #afterwards(file: SqlFile, apply: () => void): void {
    this.#later.push(() => this.#guarded(file, apply));
  }

  #make(file: SqlFile, written: Written, declaration: Declaration): void {
    const { kind, name, schema } = declaration;
    if (kind !== 'trigger') {
      const twin = this.#declared.find(
        (existing) =>
          existing.kind === kind && existing.name === name && !areOverloads(existing, declaration),
      );
      if (twin) {
        const line = twin.file.text.slice(0, twin.extent.start).split('\n').length;
        refuse(
          written,
          `${name} is created twice, first in ${twin.file.name}:${line}`,
          'Remove one of the two.',
        );
      }
    } else this.#afterwards(file, () => this.#findHost(written, schema, name, 'trigger'));
    const { host } = declaration;
    if (host) this.#afterwards(file, () => this.#findHost(written, host.schema, host.name, 'statement'));
    this.#declared.push({ ...declaration, file, grants: new Map(), alter: [] });
  }

  #findHost(written: Written, schema: string, name: string, child: 'trigger' | 'statement'): void {
    const { tables, views } = this.#yaml;
    if (child === 'trigger' && schema === 'auth' && name === 'users') return;
    const isKnown = tables.has(name) || views.has(name) || this.#find('views', name) !== undefined;
    const shown = schema === 'public' ? name : `${schema}.${name}`;
    if (!isKnown)
      refuse(
        written,
        `the ${child} refers to ${shown}, which is not a table or view of the configuration`,
        child === 'trigger'
          ? 'Declare it under tables or views. Create triggers on users on auth.users.'
          : 'Declare it under tables or views.',
      );
  }

  #find(kind: Declaration['kind'], name: string): DeclaredObject | undefined {
    return this.#declared.find((candidate) => candidate.kind === kind && candidate.name === name);
  }

  /** Returns the object of a COMMENT or GRANT. Arguments select among overloads. */
  #findTarget(
    written: Written,
    kind: Declaration['kind'],
    object: Node | undefined,
  ): DeclaredObject | undefined {
    const names = objectNames(object);
    const name = names.at(-1) ?? '';
    if (kind !== 'rpc') return this.#find(kind, name);
    const schema = names.length > 1 ? names[0] : undefined;
    const all = this.#declared.filter((candidate) => candidate.kind === kind && candidate.name === name);
    const near = all.filter((candidate) => candidate.schema === (schema ?? 'public'));
    const known = near.length > 0 ? near : all;
    if (known.length < 2) return known[0];
    const inputs = writtenInputs(object);
    if (inputs === undefined)
      refuse(
        written,
        `several functions are called ${name}`,
        `Write the arguments of one of them: ${known.map(renderSignature).join(', ')}.`,
      );
    return known.find((overload) => renderSignature(overload) === renderSignature({ ...overload, inputs }));
  }

  /** Returns the key under `rpc`. */
  #findEntry(declared: DeclaredObject): string {
    const isUnique = this.#declared.every(
      (candidate) => candidate === declared || candidate.kind !== 'rpc' || candidate.name !== declared.name,
    );
    return isUnique ? declared.name : renderSignature(declared);
  }

  #comment(written: Written, node: CommentStmt): void {
    const { objtype, object, comment } = node;
    const names = objectNames(object);
    const kind = COMMENTED[objtype ?? ''];
    const statement = commentedStatement(node);
    const declared =
      (kind && this.#findTarget(written, kind, object)) ??
      (statement === undefined ? undefined : this.#find('statements', statement));
    if (!declared)
      refuse(
        written,
        kind || statement !== undefined
          ? `no SQL file creates ${names.length > 0 && kind ? names.join('.') : `the ${statement}`}`
          : 'comments on this kind of object are not supported',
        'Write comments on tables and columns in tables.<name>, with the key comment. ' +
          'Write other comments in the SQL file that creates the object.',
      );
    declared.comment = new LocatedValue(comment ?? '', statementHead(written));
  }

  #grant(written: Written, node: GrantStmt): void {
    const { objtype, targtype, objects = [], privileges = [], grantees = [], is_grant: isGrant } = node;
    const rights = rightsOn(objtype ?? '');
    if (targtype !== 'ACL_TARGET_OBJECT' || rights === undefined) {
      const { label, hint } = describeUnsupported({ GrantStmt: node });
      refuse(written, `${label} is not supported in an SQL file`, hint);
    }
    const roles = grantees
      .flatMap((grantee) => ('RoleSpec' in grantee ? [grantee.RoleSpec] : []))
      .map(({ roletype, rolename }) => (roletype === 'ROLESPEC_CSTRING' ? (rolename ?? '') : 'public'));
    const named = privileges.flatMap((privilege) => {
      if (!('AccessPriv' in privilege)) return [];
      if ((privilege.AccessPriv.cols ?? []).length > 0)
        refuse(
          written,
          'svc grants privileges on whole views',
          'Remove the columns, or create a view of them.',
        );
      return [privilege.AccessPriv.priv_name?.toLowerCase() ?? ''];
    });
    // A GRANT of ALL has an empty list.
    const requested = named.length === 0 ? rights.known : named;
    const unknown = requested.find((privilege) => !rights.known.includes(privilege));
    if (unknown !== undefined)
      refuse(
        written,
        `svc does not grant ${unknown} on ${rights.label}`,
        `Supported privileges: ${rights.known.join(', ')}.`,
      );
    for (const object of objects) {
      const names = objectNames(object);
      const declared = this.#findTarget(written, rights.kind, object) ?? this.#findAggregate(object);
      if (!declared) refuse(written, `no SQL file creates ${names.join('.')}`, rights.elsewhere);
      for (const role of roles) this.#change(written, declared, role, requested, isGrant === true);
    }
  }

  /** GRANT uses the keyword FUNCTION for aggregates. */
  #findAggregate(object: Node): DeclaredObject | undefined {
    if (!('ObjectWithArgs' in object)) return undefined;
    return this.#find('statements', aggregateNamed(object.ObjectWithArgs));
  }

  /** Revoking from PUBLIC has no effect, because no role has a privilege before the first GRANT. */
  #change(
    written: Written,
    declared: DeclaredObject,
    role: string,
    privileges: readonly string[],
    isGrant: boolean,
  ): void {
    if (role === 'public') {
      if (!isGrant) return;
      refuse(written, 'PUBLIC includes every role of the database', 'Name the roles: anon, authenticated.');
    }
    const has = declared.grants.get(role) ?? new Set();
    for (const privilege of privileges) {
      if (isGrant) has.add(privilege);
      else has.delete(privilege);
    }
    declared.grants.set(role, has);
  }

  #collectKeys(file: SqlFile): KeyMap {
    const own = this.#declared.filter((declared) => declared.file === file);
    const named = (kind: Declaration['kind'], keys: (declared: DeclaredObject) => KeyMap): KeyValue => {
      const selected = own.filter((declared) => declared.kind === kind);
      if (selected.length === 0) return undefined;
      return Object.fromEntries(
        selected.map((declared) => [
          kind === 'rpc' ? this.#findEntry(declared) : declared.name,
          new LocatedValue(keys(declared), declared.extent),
        ]),
      );
    };
    const hosts = [
      ...new Set(own.filter(({ kind }) => kind === 'trigger').map(({ schema, name }) => `${schema}.${name}`)),
    ];
    const listTriggers = (host: string): KeyValue =>
      own
        .filter(({ kind, schema, name }) => kind === 'trigger' && `${schema}.${name}` === host)
        .map(({ keys, extent }) => new LocatedValue(keys, extent));
    const isOfView = (name: string): boolean =>
      this.#yaml.views.has(name) || this.#find('views', name) !== undefined;
    const homes = (ofViews: boolean): Array<readonly [string, KeyValue]> =>
      hosts.flatMap((host) => {
        const name = host.slice(host.indexOf('.') + 1);
        const skip = host === 'auth.users' || isOfView(name) !== ofViews;
        return skip ? [] : [[name, { triggers: listTriggers(host) }] as const];
      });
    const views = named('views', (declared) => this.#viewKeys(declared)) as KeyMap | undefined;
    const tables = Object.fromEntries(homes(false));
    return {
      types: named('types', ({ keys, comment }) => ({ ...keys, comment })),
      sequences: named('sequences', ({ keys, grants, comment }) => ({
        ...keys,
        usage: listRoles(grants, 'usage'),
        comment,
      })),
      ...(Object.keys(tables).length > 0 ? { tables } : {}),
      views: withTriggers(views, homes(true)),
      auth: hosts.includes('auth.users') ? { triggers: listTriggers('auth.users') } : undefined,
      rpc: named('rpc', (declared) => this.#functionKeys(declared)),
      statements: named('statements', ({ keys, grants, comment, alter }) => {
        const roles = listRoles(grants, 'execute');
        return {
          ...keys,
          alter: alter.length === 0 ? undefined : alter,
          execute: roles.length === 0 ? undefined : roles,
          comment,
        };
      }),
    };
  }

  #functionKeys(declared: DeclaredObject): KeyMap {
    const { keys, schema, name, grants, comment } = declared;
    const entry = this.#findEntry(declared);
    const { exposedFunctions } = this.#yaml;
    // An entry exposes all overloads, or one overload with its arguments.
    const exposed =
      exposedFunctions.get(`${schema}.${name}`) ??
      exposedFunctions.get(schema === 'public' ? `public.${entry}` : entry);
    const roles = listRoles(grants, 'execute');
    const hasGrants = grants.size > 0;
    // Trigger functions and procedures cannot be called through the API and do not have these keys.
    const isServable = keys['kind'] !== 'procedure' && !isTriggerFunction(keys);
    return {
      ...(entry === name ? {} : { name }),
      ...keys,
      description: comment,
      expose: isServable ? exposed !== undefined : undefined,
      auth_required: exposed?.authRequired === true ? true : undefined,
      execute: hasGrants && !isTriggerFunction(keys) && (roles.length > 0 || exposed) ? roles : undefined,
    };
  }

  #viewKeys({ keys, schema, name, grants, comment }: DeclaredObject): KeyMap {
    const isExposed = this.#yaml.exposedRelations.has(`${schema}.${name}`);
    const granted = Object.fromEntries(
      [...grants].map(([role, privileges]) => [
        role,
        VIEW_PRIVILEGES.filter((privilege) => privileges.has(privilege)),
      ]),
    );
    const none = isExposed ? {} : Object.fromEntries(API_ROLES.map((role) => [role, []]));
    const all = { ...none, ...granted };
    return {
      ...keys,
      comment,
      expose: isExposed,
      grants: Object.keys(all).length === 0 ? undefined : all,
    };
  }
}

const COMMENTED: Readonly<Record<string, Declaration['kind']>> = {
  OBJECT_FUNCTION: 'rpc',
  OBJECT_PROCEDURE: 'rpc',
  OBJECT_ROUTINE: 'rpc',
  OBJECT_VIEW: 'views',
  OBJECT_MATVIEW: 'views',
  OBJECT_TYPE: 'types',
  OBJECT_DOMAIN: 'types',
  OBJECT_SEQUENCE: 'sequences',
};

/** Supported privileges of a kind of object. */
type Rights = {
  readonly kind: Declaration['kind'];
  readonly label: string;
  readonly known: readonly string[];
  readonly elsewhere: string;
};

const RIGHTS = {
  OBJECT_ROUTINE: {
    kind: 'rpc',
    label: 'functions',
    known: ['execute'],
    elsewhere: 'Grant privileges on functions of svc.yaml with rpc.<name>.execute.',
  },
  OBJECT_TABLE: {
    kind: 'views',
    label: 'views',
    known: VIEW_PRIVILEGES,
    elsewhere:
      'Grant privileges on tables with tables.<name>.grants, on views of svc.yaml with views.<name>.grants.',
  },
  OBJECT_SEQUENCE: {
    kind: 'sequences',
    label: 'sequences',
    // Accept SELECT, which is part of the privilege `usage` of svc.
    known: ['usage', 'select'],
    elsewhere: 'Grant privileges on sequences of svc.yaml with sequences.<name>.usage.',
  },
} as const satisfies Record<string, Rights>;

const ROUTINES: ReadonlySet<string> = new Set(['OBJECT_FUNCTION', 'OBJECT_PROCEDURE', 'OBJECT_ROUTINE']);

function rightsOn(kind: string): Rights | undefined {
  if (ROUTINES.has(kind)) return RIGHTS.OBJECT_ROUTINE;
  return kind === 'OBJECT_TABLE' || kind === 'OBJECT_SEQUENCE' ? RIGHTS[kind] : undefined;
}

function listRoles(grants: DeclaredObject['grants'], privilege: string): string[] {
  return [...grants].filter(([, has]) => has.has(privilege)).map(([role]) => role);
}

function objectNames(object: Node | undefined): string[] {
  if (!object) return [];
  if ('ObjectWithArgs' in object) return namesIn(object.ObjectWithArgs.objname);
  if ('List' in object) return namesIn(object.List.items);
  if ('TypeName' in object) return namesIn(object.TypeName.names);
  if (!('RangeVar' in object)) return [];
  const { schemaname, relname = '' } = object.RangeVar;
  return schemaname === undefined ? [relname] : [schemaname, relname];
}

function isAboutOwner(node: Node): boolean {
  if ('AlterOwnerStmt' in node) return true;
  const commands = 'AlterTableStmt' in node ? (node.AlterTableStmt.cmds ?? []) : [];
  return (
    commands.length > 0 &&
    commands.every(
      (command) => 'AlterTableCmd' in command && command.AlterTableCmd.subtype === 'AT_ChangeOwner',
    )
  );
}

function isTriggerFunction({ returns }: KeyMap): boolean {
  const { type } = (returns ?? {}) as { type?: unknown };
  return type === 'trigger';
}

function withTriggers(
  views: KeyMap | undefined,
  triggers: ReadonlyArray<readonly [string, KeyValue]>,
): KeyValue {
  if (triggers.length === 0) return views;
  const merged: Record<string, KeyValue> = { ...views };
  for (const [name, keys] of triggers) {
    const before = merged[name];
    merged[name] =
      before instanceof LocatedValue
        ? new LocatedValue({ ...(before.value as KeyMap), ...(keys as KeyMap) }, before.extent)
        : keys;
  }
  return merged;
}
