/** Dark, light, or what the system says. */
import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
const KEY = "arco.theme";
const listeners = new Set<() => void>();

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system"; // storage may be forbidden
  }
}

let theme = stored();

function apply(): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

apply();

export function setTheme(next: Theme): void {
  theme = next;
  apply();
  try {
    if (next === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
  } catch {
    // it holds until the page is closed
  }
  for (const listener of listeners) listener();
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => void listeners.delete(listener);
};

export const useTheme = (): Theme => useSyncExternalStore(subscribe, () => theme);

const system = matchMedia("(prefers-color-scheme: dark)");
system.addEventListener("change", () => {
  for (const listener of listeners) listener();
});

const isDark = (): boolean => theme === "dark" || (theme === "system" && system.matches);

/** Changes when the colours do: what is on a canvas has to be drawn again. */
export const useDark = (): boolean => useSyncExternalStore(subscribe, isDark);

const known = new Map<string, string>();
const probe = document.createElement("span");
probe.hidden = true;

/** For canvases: the value of a colour now. */
export function colour(name: string): string {
  const key = `${name} ${isDark()}`;
  let value = known.get(key);
  if (value === undefined) {
    if (!probe.isConnected) document.body.append(probe);
    probe.style.color = `var(--${name})`;
    known.set(key, (value = getComputedStyle(probe).color));
  }
  return value;
}
