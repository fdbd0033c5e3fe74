import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const server = process.env.ARCO_SERVER ?? "http://127.0.0.1:8321";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/arco/ui",
    emptyOutDir: true,
    assetsDir: "static",
    assetsInlineLimit: 0, // the page's policy has no data: URLs
    modulePreload: { polyfill: false },
    target: "es2023",
    chunkSizeWarningLimit: 1500,
  },
  worker: { format: "es" },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/local", "/auth", "/duckdb"].map((path) => [path, { target: server, changeOrigin: true }]),
    ),
  },
});
