// Checks whether the port is free before any slow step, and explains a failed listen.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { errorCode } from '../lib/error-code.ts';
import { Problem } from '../problem/problem.ts';

/** Returns the problem, or undefined if the failure does not concern the choice of the port. */
export function portProblem(cause: unknown, port: number): Problem | undefined {
  const code = errorCode(cause);
  if (code === 'EADDRINUSE') {
    return new Problem('port_in_use', 500, `Port ${port} is already in use`, {
      cause,
      hint: 'Stop the program that uses it, or choose another port with --port, SVC_PORT or server.port.',
    });
  }
  if (code === 'EACCES') {
    return new Problem('port_forbidden', 500, `This user has no permission to listen on port ${port}`, {
      cause,
      hint: 'Choose a port above 1023 with --port, SVC_PORT or server.port.',
    });
  }
  return undefined;
}

/** Throws if another program listens on the port. The port may still be taken before the server opens it. */
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
      // The real listen reports other failures, such as an address that this machine does not have.
      continue;
    }
    server.close();
    await once(server, 'close');
  }
}
