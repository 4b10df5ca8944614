// A page of docs/how-to/ that is run: its whole svc.yaml is served, and a test runs its other blocks unchanged.
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import { startBackendWorld, type BackendWorld } from '../backend-world.ts';
import { LAUNCHER, NODE } from '../svc-process.ts';
import { readBlocks, ROOT, type Block } from './blocks.ts';

export const PASSWORD = 'correct horse battery';

const LIBRARY = import.meta.resolve('@supabase/supabase-js');
/** The client library of this repository, for `ctx.client` of code functions. */
export const CLIENT_LIBRARY = {
  'functions/package.json': '{ "type": "module" }',
  'functions/node_modules/@supabase/supabase-js/package.json':
    '{ "name": "@supabase/supabase-js", "version": "2.119.0", "type": "module", "exports": "./index.js" }',
  'functions/node_modules/@supabase/supabase-js/index.js': `export * from '${LIBRARY}';`,
};

export type User = { readonly id: string; readonly client: SupabaseClient };
type PageOptions = NonNullable<Parameters<typeof startBackendWorld>[1]> & {
  /** Changes the file before it is served. */
  readonly edit?: (yaml: string) => string;
};

/** Calls a function that a block exports. */
export type Call = <Result = void>(name: string, ...args: readonly unknown[]) => Promise<Result>;

/** The blocks of a page, each of which a test must use. */
export class HowToPage {
  readonly #blocks: readonly Block[];
  readonly #used = new Set<Block>();
  readonly #yaml: string;
  readonly world: BackendWorld;

  private constructor(blocks: readonly Block[], yaml: string, world: BackendWorld) {
    this.#blocks = blocks;
    this.#yaml = yaml;
    this.world = world;
  }

  /** Serves the first YAML block of the page that is a whole file. */
  static async open(page: string, options: PageOptions = {}): Promise<HowToPage> {
    const blocks = readBlocks(page).filter(({ language }) => language !== 'text');
    const file = blocks.find(({ language, code }) => language === 'yaml' && code.startsWith('version: 1'));
    if (!file) throw new Error(`${page} has no complete svc.yaml`);
    const yaml = options.edit?.(file.code) ?? file.code;
    const handlers = blocks.filter((block) => block.file?.startsWith('functions/'));
    const files = Object.fromEntries(handlers.map((block) => [String(block.file), block.code]));
    const world = await startBackendWorld(yaml, {
      ...options,
      ...(handlers.length > 0 && { files: { ...CLIENT_LIBRARY, ...files } }),
    });
    const opened = new HowToPage(blocks, yaml, world);
    for (const block of handlers) opened.#used.add(block);
    opened.#used.add(file);
    return opened;
  }

  /** Returns the text of the block that begins with the given text. */
  code(begin: string): string {
    const block = this.#blocks.find(({ code }) => code.startsWith(begin));
    if (!block) throw new Error(`no block begins with ${begin}`);
    this.#used.add(block);
    return block.code;
  }

  /** Imports a JavaScript block that exports functions. */
  async module(begin: string): Promise<Call> {
    const exported = (await import(
      `data:text/javascript,${encodeURIComponent(this.code(begin))}`
    )) as Readonly<Record<string, (...args: readonly unknown[]) => unknown>>;
    return async <Result>(name: string, ...args: readonly unknown[]) =>
      (await exported[name]?.(...args)) as Result;
  }

  /** Writes a block to the file that the page names, in a folder with the packages of this repository. */
  write(begin: string): void {
    const block = this.#blocks.find(({ code }) => code.startsWith(begin));
    if (block?.file === undefined) throw new Error(`no block with a file begins with ${begin}`);
    writeFileSync(join(this.world.directory, block.file), this.code(begin));
    const packages = join(this.world.directory, 'node_modules');
    if (!existsSync(packages)) symlinkSync(join(ROOT, 'node_modules'), packages);
  }

  /** Runs a block of commands in the folder of svc.yaml and returns its standard output. */
  async sh(begin: string): Promise<string> {
    const bin = join(this.world.directory, 'bin');
    mkdirSync(bin, { recursive: true });
    writeFileSync(join(bin, 'svc'), `#!/bin/sh\nexec '${NODE}' '${LAUNCHER}' "$@"\n`);
    chmodSync(join(bin, 'svc'), 0o755);
    const { keys, url, databaseUrl, directory } = this.world;
    writeFileSync(join(directory, 'svc.yaml'), this.#yaml);
    const text = this.code(begin).replaceAll('http://localhost:8080', url);
    const { stdout } = await promisify(execFile)('bash', ['-e', '-c', text], {
      cwd: directory,
      env: {
        ...process.env,
        SVC_URL: url,
        SVC_DATABASE_URL: databaseUrl,
        SVC_PUBLISHABLE_KEY: keys.publishable,
        SVC_SECRET_KEY: keys.secret,
        NO_COLOR: '1',
        PATH: `${bin}:${dirname(NODE)}:${process.env['PATH']}`,
      },
    });
    return stdout;
  }

  /** Returns blocks that no call has used. Only lists of keys, which another test checks, need no call. */
  unused(): string[] {
    return this.#blocks
      .filter((block) => !this.#used.has(block) && block.language !== 'yaml')
      .map(({ page, line }) => `${page}:${line}`);
  }

  anonymous(): SupabaseClient {
    return createClient(this.world.url, this.world.keys.publishable, {
      auth: { persistSession: false, autoRefreshToken: false },
    });
  }

  admin(): SupabaseClient {
    return createClient(this.world.url, this.world.keys.secret, {
      auth: { persistSession: false, autoRefreshToken: false },
    });
  }

  async signUp(name: string, data: Readonly<Record<string, unknown>> = {}): Promise<User> {
    const client = this.anonymous();
    const answer = await client.auth.signUp({
      email: `${name}@example.com`,
      password: PASSWORD,
      options: { data },
    });
    if (answer.error) throw answer.error;
    return { id: answer.data.user?.id ?? '', client };
  }

  async close(): Promise<void> {
    await this.world.close();
  }
}
