import { createClient } from '@supabase/supabase-js';

export const client = createClient(
  import.meta.env.VITE_SVC_URL ?? 'http://localhost:8080',
  import.meta.env.SVC_PUBLISHABLE_KEY,
);
