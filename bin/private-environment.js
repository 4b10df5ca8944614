// Linux shows the environment that a process was started with to every process of the same user, in
// /proc/<pid>/environ, whatever the process deletes of it: code functions could read the database URL and the keys of
// the service there. So a command that serves replaces itself by the same program, with the same process id, whose
// environment holds only what Node itself reads at its start. The rest goes through a file that the new program
// deletes before it does anything else, encrypted with a key that is in that environment: what a crash in between
// leaves on the disk is of no use to anybody.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import {
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readFileSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const HANDOVER = 'SVC_ENVIRONMENT_HANDOVER';
const SERVING = new Set(['dev', 'serve', 'receive']);

/** What Node, V8, OpenSSL and the C library read before any code of ours runs; all else can come later. */
const READ_AT_START = new RegExp(
  `^(${[
    'PATH|HOME|USER|LOGNAME|PWD|SHELL|TERM|COLORTERM|TZ|TMPDIR|LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR',
    'NODE_(OPTIONS|PATH|ENV|EXTRA_CA_CERTS|ICU_DATA|COMPILE_CACHE|DISABLE_COMPILE_CACHE|DISABLE_COLORS|NO_WARNINGS)',
    'NODE_(DEBUG|DEBUG_NATIVE|PENDING_DEPRECATION|PRESERVE_SYMLINKS|PRESERVE_SYMLINKS_MAIN|REDIRECT_WARNINGS)',
    'NODE_(SKIP_PLATFORM_CHECK|TLS_REJECT_UNAUTHORIZED|USE_ENV_PROXY|USE_SYSTEM_CA|V8_COVERAGE)',
    'UV_THREADPOOL_SIZE|UV_USE_IO_URING|SSL_CERT_FILE|SSL_CERT_DIR|OPENSSL_CONF|OPENSSL_MODULES',
    'LD_LIBRARY_PATH|LD_PRELOAD|MALLOC_[A-Z_]+|GLIBC_TUNABLES',
  ].join('|')})$`,
);
const PROXIES = /^(HTTPS?_PROXY|NO_PROXY)$/i;

/**
 * Returns in the program whose environment is empty, with process.env as it was, and which Node was given `flags`;
 * elsewhere it changes nothing.
 */
export function keepEnvironmentPrivate(flags = []) {
  const handover = process.env[HANDOVER];
  if (handover !== undefined) {
    takeOver(handover);
    return;
  }
  // Absent before Node 22.15 and on Windows. A parent's message channel would not survive.
  if (!SERVING.has(process.argv[2] ?? '') || !process.execve || process.channel) return;
  if (process.env.SVC_NO_REEXEC === '1') return;
  const { kept, hidden } = splitEnvironment(process.env);
  // Elsewhere nobody is shown it.
  const isShown = process.platform === 'linux' && Object.keys(hidden).length > 0;
  const written = isShown ? writeSealed(JSON.stringify(hidden)) : undefined;
  if (written === undefined && flags.length === 0) return;
  process.execve(
    process.execPath,
    [process.argv0, ...process.execArgv, ...flags, ...process.argv.slice(1)],
    written === undefined ? process.env : { ...kept, [HANDOVER]: written },
  );
}

/** What the environment of a process may show, and what it must not. */
export function splitEnvironment(env) {
  const kept = {};
  const hidden = {};
  for (const [name, value] of Object.entries(env)) {
    const isRead = READ_AT_START.test(name) || (PROXIES.test(name) && env['NODE_USE_ENV_PROXY'] === '1');
    (isRead ? kept : hidden)[name] = value;
  }
  return { kept, hidden };
}

/** In memory where there is such a place, so that nothing reaches a disk. */
function writeSealed(text) {
  const key = randomBytes(32);
  const cipher = createCipheriv('aes-256-gcm', key, Buffer.alloc(12));
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]);
  for (const folder of ['/dev/shm', tmpdir()]) {
    if (!existsSync(folder)) continue;
    const path = join(folder, `.svc-environment-${randomBytes(12).toString('hex')}`);
    try {
      writeFileSync(path, sealed, { flag: 'wx', mode: 0o600 });
      return `${key.toString('hex')}:${path}`;
    } catch {
      // A read-only or full file system; the next one, or the environment stays as it is.
      rmSync(path, { force: true });
    }
  }
  return undefined;
}

function takeOver(handover) {
  delete process.env[HANDOVER];
  const [keyText = '', ...rest] = handover.split(':');
  const path = rest.join(':');
  try {
    const file = openSync(path, 'r');
    unlinkSync(path);
    const { uid, mode } = fstatSync(file);
    if (uid !== process.getuid?.() || (mode & 0o077) !== 0) throw new Error('it is not ours');
    const sealed = readFileSync(file);
    closeSync(file);
    const opener = createDecipheriv('aes-256-gcm', Buffer.from(keyText, 'hex'), Buffer.alloc(12));
    opener.setAuthTag(sealed.subarray(-16));
    const text = Buffer.concat([opener.update(sealed.subarray(0, -16)), opener.final()]).toString('utf8');
    for (const [name, value] of Object.entries(JSON.parse(text))) process.env[name] = value;
  } catch (error) {
    process.stderr.write(`svc could not take over its environment: ${error.message}\n`);
    process.exit(70);
  }
}
