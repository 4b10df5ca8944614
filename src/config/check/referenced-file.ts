// Files and folders that svc.yaml names: they stay in its directory and must be there.
import { accessSync, constants, statSync } from 'node:fs';
import { isAbsolute, join, relative, sep } from 'node:path';
import type { KeyPath } from '../mistakes/mistake.ts';
import type { CheckContext } from './context.ts';

/** True where the file, or folder, can be read. */
export function checkReferencedFile(
  context: CheckContext,
  path: KeyPath,
  file: string,
  kind: 'file' | 'folder' = 'file',
): boolean {
  const { directory } = context.options;
  if (directory === undefined) return false;
  const whole = join(directory, file);
  const inside = relative(directory, whole);
  const shown = context.show(path, file);
  if (isAbsolute(file) || inside === '..' || inside.startsWith(`..${sep}`)) {
    context.badValue(
      path,
      `${shown} is outside the directory of this file`,
      'Paths start from the directory of svc.yaml and stay in it.',
    );
    return false;
  }
  const missing = (message: string, hint: string): boolean => {
    context.report({ code: 'missing-file', path, message, hint });
    return false;
  };
  const stats = statSync(whole, { throwIfNoEntry: false });
  if (!stats)
    return missing(
      `there is no ${kind} ${shown}`,
      `Create it, or correct the path: it starts from ${directory}.`,
    );
  if (kind === 'file' && !stats.isFile()) return missing(`${shown} is not a file`, 'Name the file itself.');
  if (kind === 'folder' && !stats.isDirectory())
    return missing(`${shown} is not a folder`, 'Name the folder that holds the files.');
  if (isReadable(whole)) return true;
  return missing(`${shown} may not be read`, 'Give the user that runs svc the right to read it.');
}

/** A file that stands for a text of this one. */
export function checkBodyFile(context: CheckContext, path: KeyPath, file: string): void {
  if (context.options.directory !== undefined) {
    checkReferencedFile(context, path, file);
    return;
  }
  context.report({
    code: 'missing-file',
    path,
    message: 'a configuration that is read from elsewhere has no files beside it',
    hint: 'Write the text itself: body: ….',
  });
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK);
    return true;
  } catch {
    // Why does not matter: the hint is the same.
    return false;
  }
}
