// Loads short YAML texts with the real loader.
import type { Config } from '../../src/config/config.ts';
import { loadConfig } from '../../src/config/load.ts';

export function parseConfig(text: string): Config {
  const loaded = loadConfig(
    { name: 'svc.yaml', directory: undefined, text: `version: 1\n${text.replace(/^\n/, '')}` },
    { variables: {} },
  );
  if (loaded.ok) return loaded.config;
  throw new Error(
    loaded.mistakes.map((mistake) => `${mistake.path.join('.')}: ${mistake.message}`).join('\n'),
  );
}
