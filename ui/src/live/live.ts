/**
 * Keeps the page at the newest generation.
 *
 * One tab holds a lock and has the connection; it tells the others over a BroadcastChannel. When that
 * tab closes, another gets the lock and goes on after the last event that it heard of. A stream that
 * cannot be had (a proxy that buffers, too many streams) is replaced by asking every few seconds.
 * Events say only that something happened: after them the newest generation is asked for, at most
 * once in `PAUSE_MS`, however many come.
 */
import { base, Problem, type Workspace } from "../api/client";
import { askNewest, learnGeneration } from "./generation";
import { events, StreamRefused } from "./stream";

const PAUSE_MS = 1_000;
const POLL_MS = 5_000;
const RETRY_MS = [500, 1_000, 2_000, 5_000, 10_000];

export type LiveStatus = "connecting" | "live" | "polling" | "offline" | "expired";

interface Told {
  generation?: number;
  lastId?: string;
  status?: LiveStatus;
}

export class Live {
  status: LiveStatus = "connecting";
  private readonly channel: BroadcastChannel;
  private readonly stopping = new AbortController();
  private readonly listeners = new Set<() => void>();
  private lastId = "";
  private asked = 0;
  private waiting: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly at: Workspace) {
    this.channel = new BroadcastChannel(`arco:${at.tenant}/${at.workspace}`);
    this.channel.onmessage = (message: MessageEvent<Told>) => this.hear(message.data);
    void this.ask();
    void navigator.locks
      ?.request(`arco:${at.tenant}/${at.workspace}`, { signal: this.stopping.signal }, () => this.lead())
      .catch(() => undefined);
    if (!navigator.locks) void this.lead();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  close(): void {
    this.stopping.abort();
    clearTimeout(this.waiting);
    this.channel.close();
  }

  private hear(told: Told): void {
    if (told.lastId) this.lastId = told.lastId;
    if (told.generation !== undefined) learnGeneration(this.at, told.generation);
    if (told.status) this.show(told.status);
  }

  private tell(told: Told): void {
    this.hear(told);
    if (!this.stopping.signal.aborted) this.channel.postMessage(told);
  }

  private show(status: LiveStatus): void {
    if (status === this.status) return;
    this.status = status;
    for (const listener of this.listeners) listener();
  }

  /** Runs in one tab of the browser. */
  private async lead(): Promise<void> {
    let failures = 0;
    while (!this.stopping.signal.aborted) {
      try {
        const stream = events(`${base(this.at)}/events`, this.lastId, this.stopping.signal);
        this.tell({ status: "live" });
        for await (const event of stream) {
          failures = 0;
          this.tell({ lastId: event.id || undefined });
          this.askSoon();
        }
      } catch (error) {
        if (this.stopping.signal.aborted) return;
        if (error instanceof StreamRefused && error.status === 401) {
          this.tell({ status: "expired" });
          return;
        }
        failures += 1;
        if (await this.ask()) this.tell({ status: "polling" });
      }
      const pause = failures > 3 ? POLL_MS : (RETRY_MS[failures] ?? POLL_MS);
      await sleep(pause * (0.75 + Math.random() / 2), this.stopping.signal);
      if (failures) await this.ask();
    }
  }

  private askSoon(): void {
    if (this.waiting !== undefined) return;
    const wait = Math.max(50, this.asked + PAUSE_MS - Date.now());
    this.waiting = setTimeout(() => {
      this.waiting = undefined;
      void this.ask();
    }, wait);
  }

  /** Ask for the newest generation; false if there is no answer. */
  private async ask(): Promise<boolean> {
    this.asked = Date.now();
    try {
      const generation = await askNewest(this.at, this.stopping.signal);
      this.tell({ generation, status: this.status === "offline" ? "connecting" : undefined });
      return true;
    } catch (error) {
      if (this.stopping.signal.aborted) return false;
      if (error instanceof Problem) this.tell({ status: error.status === 401 ? "expired" : "offline" });
      return false;
    }
  }
}

const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((done) => {
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), done()), { once: true });
  });
