// A certified OpenID provider in its own process, for tests of real redirects. The login field names the user as
// `subject|email|verified`; nothing is stored.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
// @ts-expect-error the package has no types
import { Provider } from 'oidc-provider';

const { clients, idTokenClaims } = JSON.parse(process.env['OIDC_PEER'] ?? '{}') as {
  clients: unknown[];
  idTokenClaims: boolean;
};

const server = createServer();
server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo;
  const issuer = `http://127.0.0.1:${port}`;
  const provider = new Provider(issuer, {
    clients,
    conformIdTokenClaims: !idTokenClaims,
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name', 'picture'] },
    cookies: { keys: ['test'] },
    findAccount: (_context: unknown, id: string) => ({
      accountId: id,
      claims: () => {
        const [sub, email, verified] = id.split('|');
        return {
          sub: id,
          ...(email
            ? { email, email_verified: verified === 'true' ? true : verified === 'text' ? 'false' : false }
            : {}),
          name: `Name of ${sub}`,
          picture: 'https://example.com/a.png',
        };
      },
    }),
  });
  server.on('request', provider.callback());
  process.stdout.write(`${issuer}\n`);
});
