// Options that choose how `files` reads bytes: storage API, S3 protocol, or the store behind a storage
// server.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import type { BytesSource } from '../../import/bytes/bytes-source.ts';
import { directoryStore } from '../../import/bytes/directory.ts';
import { fileStore } from '../../import/bytes/file-store.ts';
import { s3Endpoint, s3Store } from '../../import/bytes/s3.ts';
import { storageApi } from '../../import/bytes/storage-api.ts';
import type { S3Access } from '../../storage/backend/s3-client.ts';
import type { Environment } from '../environment.ts';
import { EXIT, failure } from '../exit.ts';

export type BytesOptions = {
  readonly api?: string;
  readonly keyEnv: string;
  readonly s3?: string;
  readonly s3Region?: string;
  readonly s3KeyEnv: string;
  readonly s3SecretEnv: string;
  readonly files?: string;
};

const CHOOSE_ONE =
  'Use one of: --api <url> of the project, --s3 <endpoint> of the project, --files <directory>.';

/** Adds the options. Keys come from the environment, because other users of the machine can see arguments. */
export function withBytes(command: Command): Command {
  return command
    .option('--api <url>', 'URL of the project')
    .option('--key-env <name>', 'variable with its secret key', 'SVC_IMPORT_API_KEY')
    .option('--s3 <endpoint>', 'S3 endpoint of the project, or of the store with --files s3://…')
    .option('--s3-region <region>', 'region of that endpoint', 'us-east-1')
    .option('--s3-key-env <name>', 'variable with the access key', 'SVC_IMPORT_S3_ACCESS_KEY_ID')
    .option('--s3-secret-env <name>', 'variable with its secret', 'SVC_IMPORT_S3_SECRET_ACCESS_KEY')
    .option('--files <place>', 'directory, or s3://bucket/folder, of your own storage server');
}

export function openBytesSource(options: BytesOptions, env: Environment): BytesSource {
  const { api, keyEnv, s3, files } = options;
  if (files !== undefined) {
    if (api !== undefined) throw failure(EXIT.misuse, '--api and --files exclude each other', CHOOSE_ONE);
    if (/^s3:\/\//i.test(files)) return storeIn(files, options, env);
    if (s3 !== undefined) throw failure(EXIT.misuse, '--s3 and a directory exclude each other', CHOOSE_ONE);
    if (!existsSync(files)) throw failure(EXIT.misuse, `there is no directory ${files}`);
    return fileStore(directoryStore(resolve(files)));
  }
  if (api !== undefined && s3 !== undefined)
    throw failure(EXIT.misuse, '--api and --s3 exclude each other', CHOOSE_ONE);
  if (s3 !== undefined) return s3Endpoint(readAccess(options, env));
  if (api === undefined) throw failure(EXIT.misuse, 'the source of the files is missing', CHOOSE_ONE);
  assertUrl(api, '--api');
  return storageApi({
    url: api,
    key: requireVariable(env, keyEnv, 'Set it to the secret key of the project.'),
  });
}

function storeIn(files: string, options: BytesOptions, env: Environment): BytesSource {
  const [bucket = '', ...folders] = files.slice('s3://'.length).split('/');
  if (bucket === '')
    throw failure(EXIT.misuse, `${files} has no bucket name`, 'Write s3://bucket or s3://bucket/folder.');
  const prefix = folders.filter((folder) => folder !== '').join('/');
  return fileStore(s3Store(readAccess(options, env), bucket, prefix));
}

const NEED_KEY = 'Set it to the access key, or use --s3-key-env to read another variable.';
const NEED_SECRET =
  'Set it to the secret of the access key, or use --s3-secret-env to read another variable.';

function readAccess({ s3, s3Region, s3KeyEnv, s3SecretEnv }: BytesOptions, env: Environment): S3Access {
  if (s3 !== undefined) assertUrl(s3, '--s3');
  return {
    endpoint: s3,
    region: s3Region,
    accessKeyId: requireVariable(env, s3KeyEnv, NEED_KEY),
    secretAccessKey: requireVariable(env, s3SecretEnv, NEED_SECRET),
  };
}

function requireVariable(env: Environment, name: string, hint: string): string {
  const value = env[name];
  if (!value) throw failure(EXIT.misuse, `${name} is not set`, hint);
  return value;
}

function assertUrl(text: string, option: string): void {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol))
    throw failure(EXIT.misuse, `${option} is not a URL: ${text}`, 'Write it with https://.');
  if (url.username !== '' || url.password !== '')
    throw failure(
      EXIT.misuse,
      `${option} contains a key, which other users of this machine can read`,
      CHOOSE_ONE,
    );
}
