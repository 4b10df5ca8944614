// The parent of workers that are worker.ts: `parent.ts <processes> <port> [option=value …]`.
import { fileURLToPath } from 'node:url';
import { Supervisor } from '../../../../src/supervisor/supervisor.ts';

const [, , processes, ...args] = process.argv;
process.exitCode = await new Supervisor({
  processes: Number(processes),
  program: fileURLToPath(new URL('worker.ts', import.meta.url)),
  arguments: args,
  env: { ...process.env, SVC_SECRET_KEY: 'a-secret' },
}).run();
