// Statements of all SQL files → keys of svc.yaml, in the file in which each stands. Comments and grants go with what they
// are about, wherever that is made; so the order of files and statements has no meaning.
import type { CommentStmt, GrantStmt, Node } from '@pgsql/types';
import type { MistakeCode } from '../mistakes/mistake.ts';
import { type Declaration, statementHead, refuse, Refusal, type Written } from './declaration.ts';
import { declareFunction } from './functions.ts';
import { namesIn, Said, type KeyMap, type KeyValue } from './key-nodes.ts';
import { areOverloads, renderSignature, writtenInputs } from './overloads.ts';
import { parseSql, type Extent } from './parser.ts';
import { findHome } from './unsupported.ts';
import { declareSequence } from './sequences.ts';
import { aggregateNamed, commentedStatement, completedBy, declareStatement } from './statements.ts';
import { declareTrigger } from './triggers.ts';
import { declareComposite, declareDomain, declareEnum } from './types.ts';
import { declareMaterialized, declareView } from './views.ts';

export type SqlFile = {
  /** As messages name it. */
  readonly name: string;
  readonly text: string;
};

/** What the YAML files say that decides how a statement is read. */
export type Surroundings = {
  readonly tables: ReadonlySet<string>;
  readonly views: ReadonlySet<string>;
  /** `schema.name` under `expose`, with what is said there of each. */
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
  /** Of each file, in the order of the files. */
  readonly keys: readonly KeyMap[];
  readonly problems: readonly SqlProblem[];
};

export function toKeys(files: readonly SqlFile[], surroundings: Surroundings): FromSql {
  return new Reader(files, surroundings).read();
}

type Made = Declaration & {
  readonly file: SqlFile;
  /** Roles that may run it, or privileges by role; undefined before any GRANT or REVOKE. */
  grants: Map<string, Set<string>>;
  comment?: KeyValue;
  /** Statements that complete it. */
  readonly alter: string[];
};

/** In the order in which the configuration lists them. */
const VIEW_PRIVILEGES = ['select', 'insert', 'update', 'delete'];
const API_ROLES = ['anon', 'authenticated', 'service_role'];

class Reader {
  readonly #files: readonly SqlFile[];
  readonly #surroundings: Surroundings;
  readonly #made: Made[] = [];
  readonly #problems: SqlProblem[] = [];
  /** Run once everything is made that they may be about. */
  readonly #later: Array<() => void> = [];

  constructor(files: readonly SqlFile[], surroundings: Surroundings) {
    this.#files = files;
    this.#surroundings = surroundings;
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
        ? 'Commands of psql, which begin with a backslash, are no SQL: leave them out.'
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
    // Whose things are is not for the file to say: they are svc's.
    else if (isAboutOwner(node)) return;
    else if ('CommentStmt' in node) this.#afterwards(file, () => this.#comment(written, node.CommentStmt));
    else if ('GrantStmt' in node) this.#afterwards(file, () => this.#grant(written, node.GrantStmt));
    else this.#readOther(file, written, node);
  }

  /** What has no key of its own, and what has no place here. */
  #readOther(file: SqlFile, written: Written, node: Node): void {
    const completed = completedBy(node);
    const declaration = declareStatement(written, node);
    if (declaration !== undefined) this.#make(file, written, declaration);
    else if (completed !== undefined) this.#afterwards(file, () => this.#complete(written, completed));
    else {
      const { what, hint } = findHome(node);
      refuse(written, `${what} has no place in an SQL file`, hint);
    }
  }

  #complete(written: Written, name: string): void {
    const made = this.#find('statements', name);
    if (!made) refuse(written, `no SQL file makes the ${name}`, 'Write its CREATE statement, too.');
    const { start, end } = written.statement;
    made.alter.push(written.text.slice(start, end));
  }

  #afterwards(file: SqlFile, apply: () => void): void {
    this.#later.push(() => this.#guarded(file, apply));
  }

  #make(file: SqlFile, written: Written, declaration: Declaration): void {
    const { kind, name, schema } = declaration;
    if (kind !== 'trigger') {
      const twin = this.#made.find(
        (one) => one.kind === kind && one.name === name && !areOverloads(one, declaration),
      );
      if (twin) {
        const line = twin.file.text.slice(0, twin.extent.start).split('\n').length;
        refuse(
          written,
          `${name} is made twice; ${twin.file.name}:${line} has it first`,
          'Remove one of the two.',
        );
      }
    } else this.#afterwards(file, () => this.#findHost(written, schema, name, 'trigger'));
    const { host } = declaration;
    if (host) this.#afterwards(file, () => this.#findHost(written, host.schema, host.name, 'statement'));
    this.#made.push({ ...declaration, file, grants: new Map(), alter: [] });
  }

  #findHost(written: Written, schema: string, name: string, what: 'trigger' | 'statement'): void {
    const { tables, views } = this.#surroundings;
    if (what === 'trigger' && schema === 'auth' && name === 'users') return;
    const isKnown = tables.has(name) || views.has(name) || this.#find('views', name) !== undefined;
    if (!isKnown)
      refuse(
        written,
        `there is no table ${schema === 'public' ? name : `${schema}.${name}`} in the file that this ${what} could be of`,
        what === 'trigger'
          ? 'Declare it under tables or views; triggers of users are made on auth.users.'
          : 'Declare it under tables or views.',
      );
  }

  #find(kind: Declaration['kind'], name: string): Made | undefined {
    return this.#made.find((one) => one.kind === kind && one.name === name);
  }

  /** What a COMMENT or GRANT is about. Of several functions of one name its arguments say which. */
  #meant(written: Written, kind: Declaration['kind'], object: Node | undefined): Made | undefined {
    const names = objectNames(object);
    const name = names.at(-1) ?? '';
    if (kind !== 'rpc') return this.#find(kind, name);
    const schema = names.length > 1 ? names[0] : undefined;
    const all = this.#made.filter((one) => one.kind === kind && one.name === name);
    const near = all.filter((one) => one.schema === (schema ?? 'public'));
    const known = near.length > 0 ? near : all;
    if (known.length < 2) return known[0];
    const inputs = writtenInputs(object);
    if (inputs === undefined)
      refuse(
        written,
        `several functions are called ${name}`,
        `Say which: ${known.map(renderSignature).join(', ')}.`,
      );
    return known.find((one) => renderSignature(one) === renderSignature({ ...one, inputs }));
  }

  /** Under `rpc`. */
  #findEntry(made: Made): string {
    const isOne = this.#made.every((one) => one === made || one.kind !== 'rpc' || one.name !== made.name);
    return isOne ? made.name : renderSignature(made);
  }

  #comment(written: Written, node: CommentStmt): void {
    const { objtype, object, comment } = node;
    const names = objectNames(object);
    const kind = COMMENTED[objtype ?? ''];
    const statement = commentedStatement(node);
    const made =
      (kind && this.#meant(written, kind, object)) ??
      (statement === undefined ? undefined : this.#find('statements', statement));
    if (!made)
      refuse(
        written,
        kind || statement !== undefined
          ? `no SQL file makes ${names.length > 0 && kind ? names.join('.') : `the ${statement}`}`
          : 'svc does not keep this comment',
        'Comments on tables and their columns stand under tables.<name>: comment; others in the SQL file that makes the thing.',
      );
    made.comment = new Said(comment ?? '', statementHead(written));
  }

  #grant(written: Written, node: GrantStmt): void {
    const { objtype, targtype, objects = [], privileges = [], grantees = [], is_grant: isGrant } = node;
    const rights = rightsOn(objtype ?? '');
    if (targtype !== 'ACL_TARGET_OBJECT' || rights === undefined) {
      const { what, hint } = findHome({ GrantStmt: node });
      refuse(written, `${what} has no place in an SQL file`, hint);
    }
    const roles = grantees
      .flatMap((one) => ('RoleSpec' in one ? [one.RoleSpec] : []))
      .map(({ roletype, rolename }) => (roletype === 'ROLESPEC_CSTRING' ? (rolename ?? '') : 'public'));
    const named = privileges.flatMap((one) => {
      if (!('AccessPriv' in one)) return [];
      if ((one.AccessPriv.cols ?? []).length > 0)
        refuse(written, 'svc grants views as a whole', 'Leave the columns out, or make a view of them.');
      return [one.AccessPriv.priv_name?.toLowerCase() ?? ''];
    });
    // No list is ALL.
    const wanted = named.length === 0 ? rights.known : named;
    const unknown = wanted.find((one) => !rights.known.includes(one));
    if (unknown !== undefined)
      refuse(
        written,
        `svc does not grant ${unknown} on ${rights.what}`,
        `It grants ${rights.known.join(', ')}.`,
      );
    for (const object of objects) {
      const names = objectNames(object);
      const made = this.#meant(written, rights.kind, object) ?? this.#findAggregate(object);
      if (!made) refuse(written, `no SQL file makes ${names.join('.')}`, rights.elsewhere);
      for (const role of roles) this.#change(written, made, role, wanted, isGrant === true);
    }
  }

  /** GRANT calls it a function. */
  #findAggregate(object: Node): Made | undefined {
    if (!('ObjectWithArgs' in object)) return undefined;
    return this.#find('statements', aggregateNamed(object.ObjectWithArgs));
  }

  /** Nobody has anything before the first GRANT, so taking away from everybody takes nothing. */
  #change(written: Written, made: Made, role: string, wanted: readonly string[], isGrant: boolean): void {
    if (role === 'public') {
      if (!isGrant) return;
      refuse(written, 'PUBLIC is every role of the database', 'Name the roles: anon, authenticated.');
    }
    const has = made.grants.get(role) ?? new Set();
    for (const one of wanted) {
      if (isGrant) has.add(one);
      else has.delete(one);
    }
    made.grants.set(role, has);
  }

  #collectKeys(file: SqlFile): KeyMap {
    const own = this.#made.filter((made) => made.file === file);
    const named = (kind: Declaration['kind'], keys: (made: Made) => KeyMap): KeyValue => {
      const some = own.filter((made) => made.kind === kind);
      if (some.length === 0) return undefined;
      return Object.fromEntries(
        some.map((made) => [
          kind === 'rpc' ? this.#findEntry(made) : made.name,
          new Said(keys(made), made.extent),
        ]),
      );
    };
    const hosts = [
      ...new Set(own.filter(({ kind }) => kind === 'trigger').map(({ schema, name }) => `${schema}.${name}`)),
    ];
    const listTriggers = (host: string): KeyValue =>
      own
        .filter(({ kind, schema, name }) => kind === 'trigger' && `${schema}.${name}` === host)
        .map(({ keys, extent }) => new Said(keys, extent));
    const isOfView = (name: string): boolean =>
      this.#surroundings.views.has(name) || this.#find('views', name) !== undefined;
    const homes = (wanted: boolean): Array<readonly [string, KeyValue]> =>
      hosts.flatMap((host) => {
        const name = host.slice(host.indexOf('.') + 1);
        const skip = host === 'auth.users' || isOfView(name) !== wanted;
        return skip ? [] : [[name, { triggers: listTriggers(host) }] as const];
      });
    const views = named('views', (made) => this.#viewKeys(made)) as KeyMap | undefined;
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
      rpc: named('rpc', (made) => this.#functionKeys(made)),
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

  #functionKeys(made: Made): KeyMap {
    const { keys, schema, name, grants, comment } = made;
    const entry = this.#findEntry(made);
    const { exposedFunctions } = this.#surroundings;
    // All of one name, or one of them with its arguments.
    const exposed =
      exposedFunctions.get(`${schema}.${name}`) ??
      exposedFunctions.get(schema === 'public' ? `public.${entry}` : entry);
    const roles = listRoles(grants, 'execute');
    const isSaid = grants.size > 0;
    // What returns trigger, and a procedure, is called by nobody, and has no such keys.
    const isServable = keys['kind'] !== 'procedure' && !isTriggerFunction(keys);
    return {
      ...(entry === name ? {} : { name }),
      ...keys,
      description: comment,
      expose: isServable ? exposed !== undefined : undefined,
      auth_required: exposed?.authRequired === true ? true : undefined,
      execute: isSaid && !isTriggerFunction(keys) && (roles.length > 0 || exposed) ? roles : undefined,
    };
  }

  #viewKeys({ keys, schema, name, grants, comment }: Made): KeyMap {
    const isExposed = this.#surroundings.exposedRelations.has(`${schema}.${name}`);
    const said = Object.fromEntries(
      [...grants].map(([role, has]) => [role, VIEW_PRIVILEGES.filter((one) => has.has(one))]),
    );
    const none = isExposed ? {} : Object.fromEntries(API_ROLES.map((role) => [role, []]));
    const all = { ...none, ...said };
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

/** What can be granted, by the kind of object. */
type Rights = {
  readonly kind: Declaration['kind'];
  readonly what: string;
  readonly known: readonly string[];
  readonly elsewhere: string;
};

const RIGHTS = {
  OBJECT_ROUTINE: {
    kind: 'rpc',
    what: 'functions',
    known: ['execute'],
    elsewhere: 'Rights on functions of svc.yaml stand under rpc.<name>.execute.',
  },
  OBJECT_TABLE: {
    kind: 'views',
    what: 'views',
    known: VIEW_PRIVILEGES,
    elsewhere:
      'Rights on tables stand under tables.<name>.grants, on views of svc.yaml under views.<name>.grants.',
  },
  OBJECT_SEQUENCE: {
    kind: 'sequences',
    what: 'sequences',
    // Whoever may take numbers may read where it stands; nobody else needs to.
    known: ['usage', 'select'],
    elsewhere: 'Rights on sequences of svc.yaml stand under sequences.<name>.usage.',
  },
} as const satisfies Record<string, Rights>;

const ROUTINES: ReadonlySet<string> = new Set(['OBJECT_FUNCTION', 'OBJECT_PROCEDURE', 'OBJECT_ROUTINE']);

function rightsOn(kind: string): Rights | undefined {
  if (ROUTINES.has(kind)) return RIGHTS.OBJECT_ROUTINE;
  return kind === 'OBJECT_TABLE' || kind === 'OBJECT_SEQUENCE' ? RIGHTS[kind] : undefined;
}

function listRoles(grants: Made['grants'], privilege: string): string[] {
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
    commands.every((one) => 'AlterTableCmd' in one && one.AlterTableCmd.subtype === 'AT_ChangeOwner')
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
      before instanceof Said
        ? new Said({ ...(before.value as KeyMap), ...(keys as KeyMap) }, before.extent)
        : keys;
  }
  return merged;
}
