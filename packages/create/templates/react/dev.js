// Starts the backend, which writes its keys to .env, then the page. Stops both when one of them ends.
import { spawn } from 'node:child_process';

const API = process.env.VITE_SVC_URL ?? `http://localhost:${process.env.SVC_PORT ?? 8080}`;
const { port } = new URL(API);
// The page reads this variable.
process.env.VITE_SVC_URL = API;
const children = [];

function start(command, args) {
  const child = spawn(command, args, { stdio: 'inherit', shell: process.platform === 'win32' });
  child.on('exit', (code) => {
    for (const other of children) other.kill();
    process.exitCode = code ?? 1;
  });
  children.push(child);
  return child;
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.on(signal, () => {
    for (const child of children) child.kill(signal);
  });

const backend = start('svc', ['dev', '--port', port]);
const isReady = async () => {
  try {
    return (await fetch(`${API}/ready`)).ok;
  } catch {
    return false;
  }
};
while (backend.exitCode === null && backend.signalCode === null && !(await isReady()))
  await new Promise((next) => setTimeout(next, 200));
if (backend.exitCode === null && backend.signalCode === null) start('vite', process.argv.slice(2));
