// Files that svc.yaml names: they stay in its directory and must be there.
import { accessSync, constants, statSync } from 'node:fs';
import { isAbsolute, join, relative, sep } from 'node:path';
import type { KeyPath } from '../mistakes/mistake.ts';
import type { CheckContext } from './context.ts';

/** True where the file can be read. */
export function checkReferencedFile(context: CheckContext, path: KeyPath, file: string): boolean {
  const { directory } = context.options;
  if (directory === undefined) return false;
  const whole = join(directory, file);
  const inside = relative(directory, whole);
  const shown = context.show(path, file);
  if (isAbsolute(file) || inside === '..' || inside.startsWith(`..${sep}`)) {
    context.report({
      code: 'bad-value',
      path,
      message: `${shown} is outside the directory of this file`,
      hint: 'Paths start from the directory of svc.yaml and stay in it.',
    });
    return false;
  }
  const stats = statSync(whole, { throwIfNoEntry: false });
  if (!stats) {
    context.report({
      code: 'missing-file',
      path,
      message: `there is no file ${shown}`,
      hint: `Create it, or correct the path: it starts from ${directory}.`,
    });
  } else if (!stats.isFile()) {
    context.report({
      code: 'missing-file',
      path,
      message: `${shown} is not a file`,
      hint: 'Name the file itself.',
    });
  } else if (isReadable(whole)) {
    return true;
  } else {
    context.report({
      code: 'missing-file',
      path,
      message: `${shown} may not be read`,
      hint: 'Give the user that runs svc the right to read it.',
    });
  }
  return false;
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
