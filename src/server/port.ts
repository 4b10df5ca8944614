// Whether the port is free, checked before anything that takes time, and what a failed listen means.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { codeOf } from '../lib/error-code.ts';
import { Problem } from '../problem/problem.ts';

/** Undefined for failures that are not about the choice of the port. */
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

/** Throws when somebody listens there. Only our own listen makes sure that it stays free. */
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
      // Another failure, such as an address this machine does not have, is reported by the real listen.
      continue;
    }
    server.close();
    await once(server, 'close');
  }
}
