import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const server = process.env.ARCO_SERVER ?? "http://127.0.0.1:8321";

/** `src/early.ts` is a script of its own, before the others and without waiting for them. */
const early: Plugin = {
  name: "early",
  transformIndexHtml: {
    order: "post",
    handler(_, { bundle }) {
      const file = Object.values(bundle ?? {}).find((each) => each.type === "chunk" && each.name === "early")?.fileName;
      return [{ tag: "script", attrs: { type: "module", async: true, src: file ? `/${file}` : "/src/early.ts" }, injectTo: "head-prepend" }];
    },
  },
};

export default defineConfig({
  plugins: [react(), early],
  build: {
    outDir: "../src/arco/ui",
    emptyOutDir: true,
    assetsDir: "static",
    assetsInlineLimit: 0, // the page's policy has no data: URLs
    modulePreload: { polyfill: false },
    target: "es2023",
    rolldownOptions: { input: { index: "index.html", early: "src/early.ts" } },
    chunkSizeWarningLimit: 1500,
  },
  worker: { format: "es" },
  server: {
    proxy: Object.fromEntries(
      ["/api", "/local", "/auth", "/duckdb"].map((path) => [path, { target: server, changeOrigin: true }]),
    ),
  },
});
