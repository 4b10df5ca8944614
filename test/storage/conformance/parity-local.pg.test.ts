import { describe } from 'vitest';
import { paritySuite } from './parity.ts';

describe('storage API on a local directory', () => {
  paritySuite(() => Promise.resolve({}));
});
