import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react()],
  // `svc dev` keeps its keys in .env. The page gets the publishable one; the prefix keeps the secret one out.
  envPrefix: ['VITE_', 'SVC_PUBLISHABLE_'],
  server: { port: 5173, strictPort: true },
});
