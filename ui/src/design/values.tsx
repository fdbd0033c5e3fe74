/** Numbers, times and names as people read them. */
import { useEffect, useState } from "react";

const integer = new Intl.NumberFormat("en");
export const count = (value: number): string => integer.format(value);
export const plural = (value: number, one: string, many = `${one}s`): string => `${count(value)} ${value === 1 ? one : many}`;

export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  let rest = value;
  while (rest >= 1024 && at < units.length - 1) {
    rest /= 1024;
    at += 1;
  }
  return `${rest >= 100 || at === 0 ? Math.round(rest) : rest.toFixed(1)} ${units[at]}`;
}

export function duration(ms: number): string {
  if (ms < 0) return "–";
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const s = ms / 1_000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${m} min ${Math.round(s % 60)} s`;
  const h = Math.floor(m / 60);
  return h < 48 ? `${h} h ${m % 60} min` : `${Math.floor(h / 24)} d ${h % 24} h`;
}

export const between = (from: string | null | undefined, to: string | null | undefined): number | null =>
  from && to ? Date.parse(to) - Date.parse(from) : null;

const UNITS: [number, Intl.RelativeTimeFormatUnit][] = [
  [60, "second"],
  [60, "minute"],
  [24, "hour"],
  [7, "day"],
  [4.35, "week"],
  [12, "month"],
  [Infinity, "year"],
];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "narrow" });

export function ago(time: string | number, now = Date.now()): string {
  let amount = ((typeof time === "number" ? time : Date.parse(time)) - now) / 1_000;
  if (Math.abs(amount) < 5) return "now";
  for (const [size, unit] of UNITS) {
    if (Math.abs(amount) < size) return relative.format(Math.round(amount), unit);
    amount /= size;
  }
  return "";
}

/** 2026-11-18 01:02:03 UTC: the same for everybody, and sortable. */
export const exact = (time: string): string => `${new Date(time).toISOString().slice(0, 19).replace("T", " ")} UTC`;

let now = Date.now();
const watchers = new Set<(value: number) => void>();
setInterval(() => {
  if (document.hidden) return;
  now = Date.now();
  for (const watcher of watchers) watcher(now);
}, 10_000);

/** A time, relative, with the exact one in its title. */
export function Time({ at, none = "–" }: { at: string | null | undefined; none?: string }) {
  const [, tick] = useState(now);
  useEffect(() => {
    watchers.add(tick);
    return () => void watchers.delete(tick);
  }, []);
  if (!at) return <span className="faint">{none}</span>;
  return (
    <time dateTime={at} title={exact(at)}>
      {ago(at)}
    </time>
  );
}

/** Text that people or programs wrote: kept to itself, whatever direction it is written in. */
export function Name({ children, mono = false }: { children: string; mono?: boolean }) {
  return <bdi className={mono ? "name mono" : "name"}>{children}</bdi>;
}

/** Who did something; nothing if nobody is named. */
export const By = ({ who }: { who: string }) => (who ? <> by <Name>{who}</Name></> : null);

export const shortId = (id: string): string => (id.length > 12 ? id.slice(-8) : id);

/** Nano-units of a currency. */
export function money(nanos: Record<string, number>): string {
  const parts = Object.entries(nanos).map(([currency, value]) => {
    const amount = value / 1e9;
    const digits = Math.abs(amount) >= 1 || amount === 0 ? 2 : 4;
    try {
      return new Intl.NumberFormat("en", { style: "currency", currency, maximumFractionDigits: digits }).format(amount);
    } catch {
      return `${amount.toFixed(digits)} ${currency}`;
    }
  });
  return parts.join(" + ") || "–";
}
