// The receiver's state on disk: its project id, the live release, and a folder per release.
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

type State = { readonly projectId: string; readonly live: string | undefined };

/** Previous releases that stay on disk. */
const KEPT_RELEASES = 5;
const UPLOAD_SUFFIX = '.tgz';

export class ReleaseStore {
  readonly #file: string;
  readonly #releases: string;
  #state: State;

  private constructor(file: string, releases: string, state: State) {
    this.#file = file;
    this.#releases = releases;
    this.#state = state;
  }

  static async open(directory: string): Promise<ReleaseStore> {
    const file = join(directory, 'state.json');
    const releases = join(directory, 'releases');
    await mkdir(releases, { recursive: true, mode: 0o700 });
    const stored = existsSync(file) ? parseState(readFileSync(file, 'utf8')) : undefined;
    const fresh: State = { projectId: `prj_${randomBytes(8).toString('hex')}`, live: undefined };
    const store = new ReleaseStore(file, releases, stored ?? fresh);
    if (!stored) await store.#save();
    for (const name of await readdir(releases)) {
      // Left by a receiver that was killed during an upload.
      if (name.endsWith(UPLOAD_SUFFIX)) await rm(join(releases, name), { force: true });
    }
    return store;
  }

  get projectId(): string {
    return this.#state.projectId;
  }

  get live(): string | undefined {
    return this.#state.live;
  }

  releaseFolder(release: string): string {
    return join(this.#releases, release);
  }

  uploadFile(release: string): string {
    return join(this.#releases, release + UPLOAD_SUFFIX);
  }

  async setLive(release: string): Promise<void> {
    this.#state = { ...this.#state, live: release };
    await this.#save();
  }

  async removeOld(): Promise<void> {
    const names = (await readdir(this.#releases)).filter(
      (name) => name !== this.#state.live && !name.endsWith(UPLOAD_SUFFIX),
    );
    // Names begin with a timestamp.
    const old = names.sort((a, b) => a.localeCompare(b)).slice(0, -KEPT_RELEASES);
    for (const name of old) await rm(this.releaseFolder(name), { recursive: true, force: true });
  }

  async #save(): Promise<void> {
    await writeFile(`${this.#file}.tmp`, `${JSON.stringify(this.#state)}\n`, { mode: 0o600 });
    await rename(`${this.#file}.tmp`, this.#file);
  }
}

function parseState(text: string): State | undefined {
  const state: unknown = JSON.parse(text);
  if (typeof state !== 'object' || state === null || !('projectId' in state)) return undefined;
  const live = 'live' in state && typeof state.live === 'string' ? state.live : undefined;
  return { projectId: String(state.projectId), live };
}
