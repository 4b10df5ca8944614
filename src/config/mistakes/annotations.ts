// Mistakes as workflow commands of GitHub Actions, which shows them at their lines in a pull request.
import { byPosition, renderPath, type Mistake } from './mistake.ts';

/** `file`: location of mistakes that do not name a file, relative to the root of the repository. */
export function annotations(mistakes: readonly Mistake[], file: string): string {
  return [...mistakes]
    .sort(byPosition)
    .map(({ severity, message, hint, path, position }) => {
      const properties = [
        `file=${property(position.file ?? file)}`,
        `line=${position.line}`,
        `col=${position.column}`,
        `title=${property(renderPath(path) || 'svc validate')}`,
      ];
      const text = `${message}\n${hint}`;
      return `::${severity === 'note' ? 'notice' : severity} ${properties.join(',')}::${data(text)}`;
    })
    .join('\n');
}

function data(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

function property(text: string): string {
  return data(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}
