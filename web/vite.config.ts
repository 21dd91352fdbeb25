import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  plugins: [react()],
  build: {
    // Nothing inline: the Content-Security-Policy of web.go forbids it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    // `npm run dev` beside `go run .`
    proxy: { '/graphql': { target: 'http://127.0.0.1:8080', ws: true }, '/playground': 'http://127.0.0.1:8080' },
  },
});
