// Statements for extensions.
import { quoteIdent, quoteLiteral } from '../../../postgres/sql.ts';
import { createExtensionSql } from '../../schema/sql/extension-sql.ts';
import type { Planners } from '../step-list.ts';

export const EXTENSIONS = {
  'create-extension': (steps, { extension }) =>
    steps.add({
      sql: createExtensionSql(extension),
      stage: 'extensions',
      identity: extension.at,
      summary: `extension ${extension.name}${extension.schema === null ? '' : ` in ${extension.schema}`}`,
    }),
  'update-extension': (steps, { extension, installed }) =>
    steps.add({
      sql: `alter extension ${quoteIdent(extension.name)} update to ${quoteLiteral(extension.version ?? '')}`,
      stage: 'extensions',
      identity: extension.at,
      sign: '~',
      summary: `extension ${extension.name} ${installed.version} → ${extension.version ?? ''}`,
    }),
} satisfies Partial<Planners>;
