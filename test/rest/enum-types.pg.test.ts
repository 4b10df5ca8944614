// Enum types of the file through the published client library: filters, inserts, arrays, and their description in the
// API.
import { createClient } from '@supabase/supabase-js';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { startBackendWorld } from '../support/backend-world.ts';

const YAML = `version: 1
types:
  mood: { enum: [sad, ok, happy] }
tables:
  days:
    rls: false
    fields:
      - { name: id, type: integer, primary_key: true }
      - { name: mood, type: mood, default: ok }
      - { name: others, type: "mood[]" }
rpc:
  days_as: { language: sql, volatility: stable, args: [{ name: wanted, type: mood, required: true }],
    returns: { type: setof days }, body: "select * from days where mood = wanted" }
`;

test('values are filtered, sorted, written and described', async () => {
  const world = await startBackendWorld(YAML);
  try {
    const client = createClient(world.url, world.keys.publishable, { auth: { persistSession: false } });
    const table = client.from('days');
    const written = await table
      .insert(
        [{ id: 1 }, { id: 2, mood: 'sad', others: ['happy', 'sad'] }, { id: 3, mood: 'happy', others: [] }],
        {
          defaultToNull: false,
        },
      )
      .select();
    expect(written.data).toEqual([
      { id: 1, mood: 'ok', others: null },
      { id: 2, mood: 'sad', others: ['happy', 'sad'] },
      { id: 3, mood: 'happy', others: [] },
    ]);
    const ids = async (query: PromiseLike<{ data: { id: number }[] | null }>): Promise<unknown> =>
      (await query).data?.map(({ id }) => id);
    expect(await ids(table.select('id').eq('mood', 'sad'))).toEqual([2]);
    expect(await ids(table.select('id').in('mood', ['sad', 'happy']).order('id'))).toEqual([2, 3]);
    expect(await ids(table.select('id').gt('mood', 'sad').order('mood', { ascending: false }))).toEqual([
      3, 1,
    ]);
    expect(await ids(table.select('id').contains('others', ['sad']))).toEqual([2]);
    expect(await ids(table.select('id').overlaps('others', ['ok', 'happy']))).toEqual([2]);
    expect((await client.rpc('days_as', { wanted: 'happy' })).data).toEqual([
      { id: 3, mood: 'happy', others: [] },
    ]);
    expect((await table.update({ mood: 'great' }).eq('id', 1)).error).toMatchObject({ code: '22P02' });
    const described = await fetch(`${world.url}/rest/v1/`, {
      headers: { apikey: world.keys.secret, accept: 'application/vnd.oai.openapi+json' },
    });
    const days = z.object({ properties: z.record(z.string(), z.unknown()) });
    const { components } = z
      .object({ components: z.object({ schemas: z.object({ days }) }) })
      .parse(await described.json());
    const values = { type: 'string', enum: ['sad', 'ok', 'happy'] };
    expect(components.schemas.days.properties).toMatchObject({
      mood: { type: ['string', 'null'], enum: ['sad', 'ok', 'happy', null] },
      others: { type: ['array', 'null'], items: values },
    });
  } finally {
    await world.close();
  }
});
