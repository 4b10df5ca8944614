import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isObjectPath, readAddress } from './object-path.ts';

test('a path survives being written into a URL', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), (name) => {
      fc.pre(isObjectPath(name));
      const encoded = name.split('/').map(encodeURIComponent).join('/');
      expect(readAddress(`bucket/${encoded}`)).toEqual({ bucket: 'bucket', name });
    }),
  );
});

test('no accepted path leaves the folder it is joined to', () => {
  const piece = fc.constantFrom('a', '.', '..', '/', '\\', '%2e', '%2f', ' ', '+', '?', 'é', '\0');
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
      const name = pieces.join('');
      fc.pre(isObjectPath(name));
      const resolved = new URL(`https://x/root/${name.split('/').map(encodeURIComponent).join('/')}`)
        .pathname;
      expect(resolved.startsWith('/root/')).toBe(true);
    }),
  );
});

test('any bytes in a URL end in an address or in a problem', () => {
  fc.assert(
    fc.property(fc.string(), (path) => {
      try {
        readAddress(path);
      } catch (error) {
        expect(error).toMatchObject({ name: 'Problem', httpStatus: 400 });
      }
    }),
  );
});
