// Rules over several keys: names must exist, some keys exclude each other, values must fit together.
// The checks work on the file as written, so that every mistake has a position. They do not access a database.
import type { Mistake } from '../mistakes/mistake.ts';
import type { SvcFile } from '../schema/schema.ts';
import type { Tree } from '../read/tree.ts';
import type { BrokenPaths } from './tables/usable-part.ts';
import { CheckContext, type CheckOptions } from './context.ts';
import { checkDataSteps } from './data-steps.ts';
import { checkExposed } from './expose.ts';
import { checkExtensions } from './extensions.ts';
import { checkCodeFunctions, checkSqlFunctions } from './functions.ts';
import { checkHooks } from './events/hooks.ts';
import { checkRealtime } from './realtime.ts';
import { checkSchedules } from './schedules.ts';
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
  checkSchedules(context);
  checkExposed(context);
  checkSeeds(context);
  checkDataSteps(context);
  if (options.syntax === true) {
    checkUnknownTypes(context);
    checkSqlSyntax(context);
  }
  return context.mistakes;
}
