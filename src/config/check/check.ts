// Rules over several keys: names that must exist, pairs that exclude each other, values that fit together.
// Works on the file as written, so that every mistake can point at its place. Asks no database.
import type { Mistake } from '../mistakes/mistake.ts';
import type { SvcFile } from '../schema/schema.ts';
import type { Tree } from '../read/tree.ts';
import type { BrokenPaths } from './tables/usable-part.ts';
import { CheckContext, type CheckOptions } from './context.ts';
import { checkDataSteps } from './data-steps.ts';
import { checkExposed } from './expose.ts';
import { checkExtensions } from './extensions.ts';
import { checkCodeFunctions, checkSqlFunctions } from './functions.ts';
import { checkHooks } from './hooks.ts';
import { checkRealtime } from './realtime.ts';
import { checkSeeds } from './seed.ts';
import { checkSequences } from './sequences.ts';
import { checkSettings } from './settings.ts';
import { checkSqlSyntax } from './syntax/sql-syntax.ts';
import { checkStatements } from './statements.ts';
import { checkBuckets } from './storage.ts';
import { checkTables } from './tables/tables.ts';
import { checkTypes } from './types.ts';
import { checkUnknownTypes } from './tables/unknown-type.ts';
import { checkUserTriggers } from './tables/triggers.ts';
import { checkViews } from './views.ts';

export function check(
  tree: Tree,
  part: { readonly file: SvcFile; readonly broken: BrokenPaths },
  options: CheckOptions,
): readonly Mistake[] {
  const context = new CheckContext(tree, part.file, part.broken, options);
  checkSettings(context);
  checkTypes(context);
  checkExtensions(context);
  checkSequences(context);
  checkTables(context);
  checkViews(context);
  checkStatements(context);
  checkBuckets(context);
  checkRealtime(context);
  checkSqlFunctions(context);
  checkUserTriggers(context);
  checkCodeFunctions(context);
  checkHooks(context);
  checkExposed(context);
  checkSeeds(context);
  checkDataSteps(context);
  if (options.syntax === true) {
    checkUnknownTypes(context);
    checkSqlSyntax(context);
  }
  return context.mistakes;
}
