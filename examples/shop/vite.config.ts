import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react()],
  // `svc dev` writes its keys to .env. The prefix exposes the publishable key to the page and not the secret key.
  envPrefix: ['VITE_', 'SVC_PUBLISHABLE_'],
  server: { port: 5173, strictPort: true },
});
