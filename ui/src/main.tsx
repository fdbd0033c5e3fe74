import "@fontsource-variable/inter/index.css";
import "@fontsource-variable/jetbrains-mono/index.css";
import "./design/tokens.css";
import "./design/base.css";
import "./design/parts.css";
import "./design/shell.css";
import "./design/pages.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { createRoot } from "react-dom/client";
import { cache } from "./api/cache";
import { sessionQuery } from "./api/permissions";
import "./layout/theme";
import { router } from "./router";

// Both are asked for now: the first page's code and data, and who the caller is, come while React starts.
void router.load();
void cache.prefetchQuery(sessionQuery);

createRoot(document.getElementById("root")!).render(
  <QueryClientProvider client={cache}>
    <RouterProvider router={router} />
  </QueryClientProvider>,
);
