import { createClient } from '@supabase/supabase-js';
import type { Database } from './database.ts';

export const supabase = createClient<Database>(
  import.meta.env['VITE_SVC_URL'] ?? 'http://localhost:8080',
  import.meta.env['SVC_PUBLISHABLE_KEY'],
);

type Table<Name extends keyof Database['public']['Tables']> = Database['public']['Tables'][Name]['Row'];
export type Team = Table<'teams'>;
export type Member = Table<'members'>;
export type Document = Table<'documents'>;
export type Attachment = Table<'attachments'>;

export function fieldText(form: HTMLFormElement, name: string): string {
  const value = new FormData(form).get(name);
  return typeof value === 'string' ? value.trim() : '';
}
