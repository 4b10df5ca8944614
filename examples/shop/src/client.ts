import { createClient } from '@supabase/supabase-js';
import type { Database } from './database.ts';

export const supabase = createClient<Database>(
  import.meta.env['VITE_SVC_URL'] ?? 'http://localhost:8080',
  import.meta.env['SVC_PUBLISHABLE_KEY'],
);

type Table<Name extends keyof Database['public']['Tables']> = Database['public']['Tables'][Name]['Row'];
export type Product = Table<'products'>;
export type BasketItem = Table<'basket_items'> & { readonly product: Product };
export type Order = Table<'orders'> & { readonly items: readonly Table<'order_items'>[] };

export function fieldText(form: HTMLFormElement, name: string): string {
  const value = new FormData(form).get(name);
  return typeof value === 'string' ? value.trim() : '';
}

const EURO = new Intl.NumberFormat('en', { style: 'currency', currency: 'EUR' });
export const money = (cents: number): string => EURO.format(cents / 100);
