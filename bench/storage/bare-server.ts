// Minimal file server as a baseline for the storage API. PUT streams to a file, GET streams it back. With `durable`,
// a PUT is answered when its bytes are on disk, like in the storage API.
import { createReadStream, createWriteStream } from 'node:fs';
import { open, rename, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';

const [, , folder = '.', mode = ''] = process.argv;

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = join(folder, encodeURIComponent(request.url ?? ''));
  if (request.method === 'PUT') {
    const staged = `${path}.${Math.random()}`;
    await pipeline(request, createWriteStream(staged));
    if (mode === 'durable') {
      const file = await open(staged);
      await file.datasync();
      await file.close();
    }
    await rename(staged, path);
    if (mode === 'durable') {
      const directory = await open(folder);
      await directory.sync();
      await directory.close();
    }
    response.end('{}');
    return;
  }
  response.setHeader('content-length', (await stat(path)).size);
  await pipeline(createReadStream(path), response);
}

const server = createServer((request, response) => {
  answer(request, response).catch(() => response.destroy());
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  if (typeof address === 'object') process.stdout.write(`${address?.port}\n`);
});
