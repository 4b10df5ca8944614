import type { SupabaseClient } from '@supabase/supabase-js';
import { defineFunction } from 'svcyaml';

// `ctx.client` acts as the caller, so the policies of `orders` decide which rows are counted.
export default defineFunction<never, SupabaseClient>(async (_req, ctx) => {
  const { data, error } = await ctx.client.from('orders').select('price').eq('paid', false);
  if (error) throw error;
  return { body: { orders: data.length, total: data.reduce((sum, { price }) => sum + price, 0) } };
});
