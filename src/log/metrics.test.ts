import { expect, test } from 'vitest';
import { Metrics } from './metrics.ts';

test('buckets hold everything up to their end, and the last one everything', () => {
  const metrics = new Metrics();
  const seconds = metrics.histogram('took_seconds', 'How long it took.', [0.1, 1]);
  for (const value of [0.1, 0.5, 7]) seconds.observe('get', value, () => ({ method: 'GET' }));
  expect(metrics.text()).toBe(
    `# HELP took_seconds How long it took.
# TYPE took_seconds histogram
took_seconds_bucket{method="GET",le="0.1"} 1
took_seconds_bucket{method="GET",le="1"} 2
took_seconds_bucket{method="GET",le="+Inf"} 3
took_seconds_sum{method="GET"} 7.6
took_seconds_count{method="GET"} 3
`,
  );
});

test('a value is read when the text is asked for, and its labels are escaped', () => {
  const metrics = new Metrics();
  let open = 1;
  metrics.read('open', 'gauge', 'What is open.', () => [{ labels: { of: 'a "b"\n\\' }, value: open }]);
  open = 2;
  expect(metrics.text()).toContain('open{of="a \\"b\\"\\n\\\\"} 2\n');
});

test('events are counted by their labels, and labels without end are counted together', () => {
  const metrics = new Metrics();
  const events = metrics.counter('events_total', 'What happened.');
  for (let n = 0; n < 1_500; n += 1) events.add(`${n}`, () => ({ kind: `${n}` }), 2);
  events.add('7', () => ({ kind: '7' }));
  const lines = metrics.text().trim().split('\n');
  expect(lines).toHaveLength(2 + 1_001);
  expect(lines).toContain('events_total{kind="7"} 3');
  expect(lines).toContain('events_total{kind="{other}"} 1000');
});
