// The port to listen on: what is wrong with one, and whether it is free, asked before anything takes time.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { codeOf } from '../lib/error-code.ts';
import { Problem } from '../problem/problem.ts';

/** What a failed listen says to whoever chose the port; undefined for other failures. */
export function portProblem(cause: unknown, port: number): Problem | undefined {
  const code = codeOf(cause);
  if (code === 'EADDRINUSE') {
    return new Problem('port_in_use', 500, `Port ${port} is already in use`, {
      cause,
      hint: 'Stop what listens there, or choose another with --port, SVC_PORT or server.port.',
    });
  }
  if (code === 'EACCES') {
    return new Problem('port_forbidden', 500, `This user may not listen on port ${port}`, {
      cause,
      hint: 'Choose a port above 1023 with --port, SVC_PORT or server.port.',
    });
  }
  return undefined;
}

/** Throws when somebody listens there; that it stays free is known only when we do. */
export async function assertPortFree(host: string, port: number): Promise<void> {
  if (port === 0) return;
  for (const address of host === 'localhost' ? ['127.0.0.1', '::1'] : [host]) {
    const server = createServer();
    try {
      server.listen({ host: address, port });
      await once(server, 'listening');
    } catch (cause) {
      const problem = portProblem(cause, port);
      if (problem) throw problem;
      // An address that this machine does not have is found where it matters.
      continue;
    }
    server.close();
    await once(server, 'close');
  }
}
