// Through the storage API of the project, with its secret key.
import { z } from 'zod';
import {
  answered,
  AWAY,
  GONE,
  NOT_IN_PARTS,
  unreadable,
  type BytesSource,
  type Refusal,
  type WantedFile,
} from './bytes-source.ts';

export type StorageApi = { readonly url: string; readonly key: string };

export function storageApi({ url, key }: StorageApi): BytesSource {
  const base = `${url.replace(/\/+$/, '')}/storage/v1/object/authenticated`;
  return {
    async open(file, start) {
      const response = await ask(file, start).catch(() => undefined);
      if (response === undefined) return AWAY;
      // A response with the whole file ignored the range.
      if (start > 0 && response.status === 200) return await refuse(response, NOT_IN_PARTS);
      if (response.ok) return response.body ?? new Blob([]).stream();
      return await refuse(response, await toRefusal(response, url));
    },
    close() {},
  };

  async function ask({ bucket, name }: WantedFile, start: number): Promise<Response> {
    const path = [bucket, ...name.split('/')].map(encodeURIComponent).join('/');
    return await fetch(`${base}/${path}`, {
      headers: {
        apikey: key,
        authorization: `Bearer ${key}`,
        // Compressed on the way, other bytes would be counted.
        'accept-encoding': 'identity',
        ...(start > 0 && { range: `bytes=${start}-` }),
      },
      // A followed redirect would send the secret key to another host.
      redirect: 'manual',
    });
  }
}

async function refuse(response: Response, refusal: Refusal): Promise<Refusal> {
  if (!response.bodyUsed) await response.body?.cancel();
  return refusal;
}

/** The API answers many failures with status 400. The body contains the specific status. */
const SAID = z.object({ statusCode: z.coerce.number() });

async function toRefusal(response: Response, url: string): Promise<Refusal> {
  const said =
    response.status === 400 ? SAID.safeParse(await response.json().catch(() => undefined)) : undefined;
  const status = said === undefined ? response.status : (said.data?.statusCode ?? 404);
  if (status === 401 || status === 403)
    throw unreadable(
      `The storage API at ${url} refuses the key`,
      'It takes the secret key of the project, service_role or sb_secret_…, which no policy stops.',
    );
  return status === 404 ? GONE : answered(status);
}
