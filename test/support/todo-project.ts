// A temporary copy of an example, so that a test may change it.
import { chmodSync, cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startSvc, type SvcProcess } from './svc-process.ts';

const EXAMPLES = new URL('../../examples/', import.meta.url);

export type Example = 'chat' | 'documents' | 'shop' | 'team' | 'todo';

export type TodoProject = { readonly directory: string; readonly config: string; remove(): void };

export const copyTodoProject = (): TodoProject => copyExample('todo');

export function copyExample(name: Example): TodoProject {
  const directory = mkdtempSync(join(tmpdir(), `svc-${name}-`));
  // mkdtemp makes the folder private; a project in a home directory usually is not.
  chmodSync(directory, 0o755);
  const skipped = new Set(['.svc', '.env', 'node_modules']);
  cpSync(fileURLToPath(new URL(name, EXAMPLES)), directory, {
    recursive: true,
    filter: (path) => !skipped.has(basename(path)),
  });
  return {
    directory,
    config: join(directory, 'svc.yaml'),
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}

export type TodoServer = SvcProcess & { readonly config: string };

/** `svc dev` on such a copy, which is removed when the server stops. */
export async function startTodoServer(): Promise<TodoServer> {
  const project = copyTodoProject();
  try {
    const svc = await startSvc({ command: 'dev', config: project.config });
    return {
      ...svc,
      config: project.config,
      async stop(signal) {
        const code = await svc.stop(signal);
        project.remove();
        return code;
      },
    };
  } catch (error) {
    project.remove();
    throw error;
  }
}
