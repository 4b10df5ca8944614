// The folder a configuration's code runs from: the project's own, or the unpacked bundle it points to.
import type { Config } from '../../config/config.ts';
import { Problem } from '../../problem/problem.ts';
import { openBundle, type OpenBundle } from './bundle-store.ts';

/** `bundle` is the pointer; undefined when the sources run in place. */
export type CodeFolder = { readonly root: string; readonly bundle: string | undefined };

export class CodeFolders {
  readonly #useBundles: boolean;
  /** Contains at most two bundles: the one in service, and one that a check opened for the next reload. */
  #bundles: OpenBundle[] = [];

  constructor(mode: 'development' | 'production') {
    this.#useBundles = mode === 'production';
  }

  /** Fetches and verifies the bundle unless it is open already. */
  async open({ functionsBundle: pointer, source, providers }: Config): Promise<CodeFolder> {
    if (this.#useBundles && pointer !== undefined) {
      let bundle = this.#bundles.find((candidate) => candidate.pointer === pointer);
      if (!bundle) {
        bundle = await openBundle(pointer, { directory: source.directory, provider: providers.storage });
        this.#bundles.push(bundle);
      }
      return { root: bundle.root, bundle: pointer };
    }
    if (source.directory === undefined) {
      throw new Problem('no_bundle', 500, 'A remote configuration needs its functions in a bundle', {
        hint: 'Create one with `svc bundle`, and keep functions_bundle in the file.',
      });
    }
    return { root: source.directory, bundle: undefined };
  }

  /** Removes every other bundle from the disk. */
  async keepOnly(...folders: ReadonlyArray<CodeFolder | undefined>): Promise<void> {
    const kept = new Set(folders.map((folder) => folder?.bundle));
    const closed = this.#bundles.filter(({ pointer }) => !kept.has(pointer));
    this.#bundles = this.#bundles.filter(({ pointer }) => kept.has(pointer));
    for (const bundle of closed) await bundle.close();
  }
}
