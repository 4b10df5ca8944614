// Writes the generated pages of docs/. A test compares them, so that they stay current.
import { writeFileSync } from 'node:fs';
import { renderReferencePage } from '../src/config/docs/reference-page.ts';

writeFileSync(new URL('../docs/configuration.md', import.meta.url), renderReferencePage());
