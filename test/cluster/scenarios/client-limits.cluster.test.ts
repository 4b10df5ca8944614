import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { query } from '../database.ts';
import type { Instance } from '../instance.ts';
import { ask, NOTES, type Answer } from '../load.ts';
import { machineAddress } from '../machines.ts';
import { PLAIN, type Scenario, type Stage } from '../scenario.ts';
import { until } from '../until.ts';

/** docs/auth.md: each for sign-ups of an address, wrong passwords of an account and address, and of an account. */
const SIGN_UPS = 30;
const WRONG_PASSWORDS = 10;
const WRONG_EVERYWHERE = 100;
const REFILL = 30_000;
const TOO_MANY = 429;

const CLIENTS = Array.from({ length: 16 }, (_, client) => `10.86.0.${100 + client}`);
const ANN = { email: 'ann@example.com', password: 'correct horse battery' };

export const scenario: Scenario = {
  name: 'client-limits',
  about:
    'limits behind a balancer: of all visitors together, of each where the proxy is trusted, and through svc receive',
  async run(stage) {
    const options = { machine: 'app1', database: stage.url() } as const;
    const untrusting = stage.start({ ...options, config: stage.config(NOTES) });
    await ready(stage, untrusting);
    await asOne(stage);
    await untrusting.stop('SIGKILL');

    await forgetLimits(stage);
    const trust = `server: { trusted_proxies: [${machineAddress('lb')}] }\n`;
    const trusting = stage.start({ ...options, config: stage.config(NOTES, trust, 'trusting.yaml') });
    await ready(stage, trusting);
    await apart(stage, 'trusted', true);
    await trusting.stop('SIGKILL');

    await forgetLimits(stage);
    await ready(stage, await received(stage));
    await apart(stage, 'svc receive', stage.full);
  },
};

/** Omits `trusted_proxies`, so that the balancer counts as the only client. */
async function asOne(stage: Stage): Promise<void> {
  const signUps = await signUpThriceEach('one');
  stage.claim(
    'not trusted: all visitors share the sign-ups of one address',
    count(signUps, 200) >= SIGN_UPS && count(signUps, TOO_MANY) > 0,
    statuses(signUps),
  );
  await claimEleventh(stage, 'not trusted');
}

async function apart(stage: Stage, name: string, withGuesses: boolean): Promise<void> {
  const signUps = await signUpThriceEach(name.replaceAll(' ', '-'));
  stage.claim(
    `${name}: each visitor has a separate limit of sign-ups`,
    count(signUps, 200) === signUps.length,
    statuses(signUps),
  );
  await claimEleventh(stage, name);
  const right = await signIn(ANN.password, CLIENTS[1]!);
  stage.claim(`${name}: the account is not locked for another visitor`, right.status === 200, right.text);

  if (!withGuesses) return;
  const startedAt = Date.now();
  const answers: Answer[] = [];
  for (let number = 0; number < 150; number++) {
    answers.push(await signIn(`guess ${number}`, CLIENTS[number % CLIENTS.length]!, 'nobody@example.com'));
  }
  const refilled = Math.floor((Date.now() - startedAt) / REFILL) * (CLIENTS.length + 1);
  const guesses = count(answers, 400);
  stage.claim(
    `${name}: of 150 guesses from 16 addresses about a hundred are answered`,
    guesses >= WRONG_EVERYWHERE &&
      guesses <= WRONG_EVERYWHERE + refilled &&
      guesses + count(answers, TOO_MANY) === 150,
    statuses(answers),
  );
}

async function claimEleventh(stage: Stage, name: string): Promise<void> {
  await signUp(ANN.email, CLIENTS[0]!, ANN.password);
  const startedAt = Date.now();
  const answers: Answer[] = [];
  while (count(answers, TOO_MANY) === 0 && answers.length < 20)
    answers.push(await signIn(`wrong ${answers.length}`, CLIENTS[0]!));
  const refilled = Math.floor((Date.now() - startedAt) / REFILL);
  stage.claim(
    `${name}: the eleventh wrong password is refused`,
    count(answers, TOO_MANY) === 1 &&
      count(answers, 400) >= WRONG_PASSWORDS &&
      count(answers, 400) <= WRONG_PASSWORDS + refilled,
    statuses(answers),
  );
}

async function signUpThriceEach(name: string): Promise<Answer[]> {
  const from = [...CLIENTS, ...CLIENTS, ...CLIENTS];
  return await Promise.all(
    from.map(async (address, at) => await signUp(`${name}-${at}@example.com`, address)),
  );
}

const signUp = async (email: string, from: string, password = 'a long enough password'): Promise<Answer> =>
  await ask(
    PLAIN,
    { kind: 'write', path: '/auth/v1/signup', body: { email, password } },
    { localAddress: from },
  );

const signIn = async (password: string, from: string, email = ANN.email): Promise<Answer> =>
  await ask(
    PLAIN,
    { kind: 'write', path: '/auth/v1/token?grant_type=password', body: { email, password } },
    { localAddress: from },
  );

const count = (answers: readonly Answer[], status: number): number =>
  answers.filter((answer) => answer.status === status).length;

function statuses(answers: readonly Answer[]): string {
  const all = [...new Set(answers.map(({ status }) => status))].toSorted((a, b) => a - b);
  return all.map((status) => `${status}: ${count(answers, status)}`).join(', ');
}

async function ready(stage: Stage, instance: Instance): Promise<void> {
  await instance.whenReady();
  await stage.untilBalanced();
}

async function forgetLimits(stage: Stage): Promise<void> {
  await query(stage.database, 'truncate auth.rate_limits');
  await query(stage.database, 'delete from auth.users');
}

/** A server that gets the project by `svc deploy`. */
async function received(stage: Stage): Promise<Instance> {
  const folder = join(stage.folder, 'receive');
  mkdirSync(folder, { recursive: true });
  mkdirSync(join(stage.folder, 'deployed'), { recursive: true });
  const database = stage.url();
  const env = {
    SVC_DEPLOY_TOKEN: 'rig-token-0123456789abcdef0123456789abcdef',
    SVC_TRUSTED_PROXIES: machineAddress('lb'),
  };
  const config = stage.config(NOTES, '', 'deployed/svc.yaml');
  const receiver = stage.start({
    machine: 'app1',
    config,
    database,
    env,
    command: ['receive', '--dir', folder, '--port', '8080'],
    arguments: [],
  });
  await until('svc receive to listen', 30_000, async () => (await receiver.ready()).status !== 0);
  const deploy = stage.start({
    // On the same machine: the token is not sent over a network without TLS.
    machine: 'app1',
    config,
    database,
    env,
    command: ['deploy', '--config', config, '--to', 'http://127.0.0.1:8080'],
    arguments: [],
  });
  const code = await deploy.exit();
  stage.claim('svc deploy succeeds', code === 0, code === 0 ? '' : deploy.output());
  return receiver;
}
