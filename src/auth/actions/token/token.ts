// POST /token: one action per grant type.
import type { AuthContext } from '../../auth-context.ts';
import { problems } from '../../problem.ts';
import type { Answer, AuthRequest } from '../../http/request.ts';
import { tokenByPassword } from './password.ts';
import { tokenByPkce } from './pkce.ts';
import { tokenByRefresh } from './refresh.ts';
import { tokenByIdToken } from './id-token.ts';

export async function token(auth: AuthContext, request: AuthRequest): Promise<Answer> {
  switch (request.query.text('grant_type') ?? '') {
    case 'password':
      return await tokenByPassword(auth, request);
    case 'refresh_token':
      return await tokenByRefresh(auth, request);
    case 'pkce':
      return await tokenByPkce(auth, request);
    case 'id_token':
      return await tokenByIdToken(auth, request);
    case 'web3':
      throw problems.web3Disabled();
    default:
      throw problems.unsupportedGrant();
  }
}
