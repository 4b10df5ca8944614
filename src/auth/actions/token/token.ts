// POST /token: one action per grant type.
import { problems } from '../../problem.ts';
import type { Answer, AuthRequest } from '../../http/request.ts';
import { tokenByPassword } from './password.ts';
import { tokenByPkce } from './pkce.ts';
import { tokenByRefresh } from './refresh.ts';
import { tokenByIdToken } from './id-token.ts';

export async function token(request: AuthRequest): Promise<Answer> {
  switch (request.query.text('grant_type') ?? '') {
    case 'password':
      return await tokenByPassword(request);
    case 'refresh_token':
      return await tokenByRefresh(request);
    case 'pkce':
      return await tokenByPkce(request);
    case 'id_token':
      return await tokenByIdToken(request);
    case 'web3':
      throw problems.web3Disabled();
    default:
      throw problems.unsupportedGrant();
  }
}
