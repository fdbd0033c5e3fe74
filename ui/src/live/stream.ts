/** Server-sent events over `fetch`: types are open-ended, which `EventSource` cannot listen to. */

export interface StreamEvent {
  id: string;
  type: string;
  data: string;
}

/** Splits text that comes in pieces into events (the format of the HTML standard, section 9.2). */
export class EventParser {
  private rest = "";
  private event: StreamEvent = { id: "", type: "", data: "" };
  private hasData = false;

  push(piece: string): StreamEvent[] {
    const lines = (this.rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop() ?? "";
    const events: StreamEvent[] = [];
    for (const line of lines) {
      if (line === "") {
        if (this.hasData || this.event.id) events.push(this.event);
        this.event = { id: "", type: "", data: "" };
        this.hasData = false;
        continue;
      }
      const colon = line.indexOf(":");
      if (colon === 0) continue; // a comment, which keeps the connection open
      const field = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "id") this.event.id = value;
      else if (field === "event") this.event.type = value;
      else if (field === "data") {
        this.event.data += (this.hasData ? "\n" : "") + value;
        this.hasData = true;
      }
    }
    return events;
  }
}

/** Events of a URL until it ends, or the signal aborts. Throws if the server refuses. */
export async function* events(url: string, lastId: string, signal: AbortSignal): AsyncGenerator<StreamEvent> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (lastId) headers["Last-Event-ID"] = lastId;
  const response = await fetch(url, { headers, signal, credentials: "same-origin", cache: "no-store" });
  if (!response.ok || !response.body) throw new StreamRefused(response.status);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield* parser.push(value);
  }
}

export class StreamRefused extends Error {
  constructor(readonly status: number) {
    super(`the stream was refused with ${status}`);
  }
}
