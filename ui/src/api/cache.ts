/** What the page has read. */
import { QueryClient } from "@tanstack/react-query";

export const cache = new QueryClient({
  defaultOptions: { queries: { gcTime: 60_000, refetchOnWindowFocus: false, networkMode: "always" } },
});
