// Renders mistakes as SARIF 2.1.0 for code scanning and editors.
import { byPosition, renderPath, type Mistake } from './mistake.ts';

/** `file`: location of mistakes that do not name a file, relative to the root of the repository. */
export function sarif(mistakes: readonly Mistake[], file: string, version: string): string {
  const rules = [...new Set(mistakes.map(({ code }) => code))].sort();
  const log = {
    $schema: 'https://json.schemastore.org/sarif-2.1.0.json',
    version: '2.1.0',
    runs: [
      {
        tool: { driver: { name: 'svc', version, rules: rules.map((id) => ({ id })) } },
        columnKind: 'utf16CodeUnits',
        results: [...mistakes]
          .sort(byPosition)
          .map(({ code, severity, message, hint, path, position, length }) => ({
            ruleId: code,
            ruleIndex: rules.indexOf(code),
            level: severity,
            message: { text: `${message}\n${hint}` },
            locations: [
              {
                physicalLocation: {
                  artifactLocation: { uri: toUri(position.file ?? file) },
                  region: {
                    startLine: position.line,
                    startColumn: position.column,
                    endColumn: position.column + length,
                  },
                },
                ...(path.length > 0 && { logicalLocations: [{ fullyQualifiedName: renderPath(path) }] }),
              },
            ],
          })),
      },
    ],
  };
  return JSON.stringify(log, undefined, 2);
}

/** Encodes a path as a relative reference. The URL of a remote file is not changed. */
function toUri(file: string): string {
  if (/^\w+:\/\//.test(file)) return file;
  return file.split(/[\\/]/).map(encodeURIComponent).join('/');
}
