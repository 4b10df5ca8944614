// The how-to page about schedules, with its blocks as printed.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runNow } from '../../src/deliveries/schedules/schedule-rows.ts';
import { must } from '../../src/lib/assert.ts';
import { sql } from '../../src/postgres/sql.ts';
import { HowToPage } from '../support/documentation/how-to-page.ts';

describe('docs/how-to/cron.md', () => {
  let page: HowToPage;
  beforeAll(async () => {
    page = await HowToPage.open('docs/how-to/cron.md');
  });
  afterAll(() => page?.close());

  const states = async (name: string): Promise<unknown[]> =>
    await page.world.owner.query(
      sql`select state, reason from svc_events.delivery where name = ${name} order by id`,
    );

  test('the commands run, pause and resume the schedules, and list the runs', async () => {
    const { owner } = page.world;
    await expect
      .poll(() => owner.query(sql`select to_regclass('svc_events.schedule') as t`))
      .not.toEqual([{ t: null }]);
    await owner.query(
      sql`insert into drafts (title, changed_at) values ('old', now() - interval '31 days'), ('new', now())`,
    );
    expect((await page.sh('svc schedules run')).split('\n')).toEqual(
      expect.arrayContaining([
        'nightly_cleanup is due now. See its result: svc schedules runs nightly_cleanup',
        'reminders is paused',
        'reminders is active',
      ]),
    );
    await expect.poll(() => states('nightly_cleanup')).toEqual([{ state: 'done', reason: null }]);
    expect(await owner.query(sql`select title from drafts`)).toEqual([{ title: 'new' }]);
    const output = await page.sh('svc schedules list');
    expect(output).toMatch(/^nightly_cleanup: Europe\/Berlin 0 3 \* \* \*, rpc remove_drafts, next \d{4}-/m);
    expect(output).toMatch(/^reminders: every 15m, function remind, next \d{4}-/m);
    expect(output).toMatch(/ done, delivery \d+\n {2}attempt 1: done after \d+ ms/);
  });

  test('the function reminds of the bookings of the next day once', async () => {
    const { owner } = page.world;
    await owner.query(
      sql`insert into bookings (starts_at) values (now() + interval '23 hours'), (now() + interval '3 days')`,
    );
    // The schedule may also be due by itself during the test.
    const ended = async (): Promise<number> =>
      (await states('reminders')).filter((row) => (row as { state: string }).state === 'done').length;
    for (let times = 1; times <= 2; times++) {
      await runNow(owner, must(page.world.options.config.schedules[1], 'the second schedule'));
      await expect.poll(ended).toBeGreaterThanOrEqual(times);
    }
    expect(
      await owner.query(
        sql`select count(reminded_at)::int as reminded, count(distinct reminded_at)::int as times from bookings`,
      ),
    ).toEqual([{ reminded: 1, times: 1 }]);
    expect(page.unused()).toEqual([]);
  });
});
