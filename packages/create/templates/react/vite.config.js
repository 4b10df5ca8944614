import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  plugins: [react()],
  // `svc dev` writes its keys to .env. The prefix exposes the publishable key to the page and not the secret key.
  envPrefix: ['VITE_', 'SVC_PUBLISHABLE_'],
});
