// Imports each handler once.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { WorkerSettings } from './protocol.ts';
import { locateSyntaxError } from './syntax-error.ts';

export type Handler = (request: object, context: object) => unknown;

export class Handlers {
  readonly #settings: WorkerSettings;
  readonly #loaded = new Map<string, Promise<Handler>>();

  constructor(settings: WorkerSettings) {
    this.#settings = settings;
  }

  /** A failure is cached too: Node would not import the file again. */
  load(name: string): Promise<Handler> {
    const handler = this.#loaded.get(name) ?? this.#import(name);
    this.#loaded.set(name, handler);
    return handler;
  }

  async #import(name: string): Promise<Handler> {
    const { root, functions } = this.#settings;
    const file = functions.find((fn) => fn.name === name)?.file;
    if (file === undefined) throw new Error(`no function ${name} is declared`);
    let module: unknown;
    try {
      module = await import(pathToFileURL(resolve(root, file)).href);
    } catch (error) {
      await locateSyntaxError(error, root, file);
      throw error;
    }
    const found =
      typeof module === 'object' && module !== null && 'default' in module ? module.default : undefined;
    if (typeof found !== 'function') {
      throw new TypeError(
        `${file} must export the handler as default: export default async function (req, ctx) { … }`,
      );
    }
    return (request, context) => Reflect.apply(found, undefined, [request, context]);
  }
}
