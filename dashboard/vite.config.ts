import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  root: import.meta.dirname,
  base: '/dashboard/',
  plugins: [react()],
  build: {
    outDir: '../dist/dashboard',
    emptyOutDir: true,
    // Never inline assets: the page's content security policy rejects inline content.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
});
