// Load from wrk, which needs little CPU itself. Requests differ by a running number.
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Workload } from './dataset.ts';

export type Load = {
  readonly requestsPerSecond: number;
  readonly requests: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly errors: number;
};

/** Number of different requests that a script repeats. */
const REQUESTS = 10_000;

export type Script = {
  /** File name without its ending. */
  readonly name: string;
  readonly basePath: string;
  readonly workload: Workload;
  readonly headers: Readonly<Record<string, string>>;
};

/** Writes a script for wrk into the folder. Each connection begins with another request. */
export function writeScript(folder: string, { name, basePath, workload, headers }: Script): string {
  const file = join(folder, `${name}-${workload.id}.lua`);
  const requests = Array.from({ length: REQUESTS }, (_, index) => {
    const { path, body } = workload.request(index * 7);
    return `{[[${basePath}${path}]], ${body === undefined ? 'nil' : `[[${body}]]`}},`;
  });
  const lines = Object.entries(headers).map(([key, value]) => `wrk.headers["${key}"] = "${value}"`);
  writeFileSync(
    file,
    `${lines.join('\n')}
local requests = {
${requests.join('\n')}
}
local i = math.random(1, ${REQUESTS})
request = function()
  i = i % ${REQUESTS} + 1
  return wrk.format("${workload.method}", requests[i][1], nil, requests[i][2])
end
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('RESULT {"requests":%d,"us":%d,"p50":%d,"p99":%d,"errors":%d}\\n', summary.requests,
    summary.duration, latency:percentile(50), latency:percentile(99), e.connect + e.read + e.write + e.status + e.timeout))
end
`,
  );
  return file;
}

export async function runLoad(
  url: string,
  script: string,
  connections: number,
  seconds: number,
): Promise<Load> {
  const output = await new Promise<string>((resolve, reject) => {
    execFile(
      'wrk',
      ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '20s', '-s', script, url],
      (error, stdout, stderr) => (error ? reject(new Error(`${error.message}\n${stderr}`)) : resolve(stdout)),
    );
  });
  const match = /RESULT (\{.*\})/.exec(output);
  if (!match?.[1]) throw new Error(`unexpected output of wrk: ${output}`);
  const result = JSON.parse(match[1]) as Record<'requests' | 'us' | 'p50' | 'p99' | 'errors', number>;
  return {
    requests: result.requests,
    requestsPerSecond: result.requests / (result.us / 1e6),
    p50Ms: result.p50 / 1000,
    p99Ms: result.p99 / 1000,
    errors: result.errors,
  };
}
