/** What an attempt printed: live, with search; errors first when it failed. Colours of terminals are kept. */
import { useVirtualizer } from "@tanstack/react-virtual";
import Anser from "anser";
import { useEffect, useMemo, useRef, useState } from "react";
import { Problem, read } from "../api/client";
import { useWorkspace } from "../api/workspace";
import { Choice, Empty, ProblemNote, SearchField, Skeleton } from "../design/parts";
import { count, plural } from "../design/values";

const PART = 256 << 10;
const MOST_CHARS = 8 << 20;
const ERROR = /\b(ERROR|CRITICAL|FATAL)\b|^Traceback |^\w*(Error|Exception)\b/;
const WARNING = /\bWARN(ING)?\b/;

export interface LogLine {
  number: number;
  text: string;
  level: "" | "error" | "warning";
}

/** Lines of a log: what a carriage return overwrote is left out; a traceback is an error to its end. */
export function logLines(text: string): LogLine[] {
  let isInTrace = false;
  return text.split("\n").map((raw, index) => {
    const last = raw.replace(/\r+$/, "");
    const shown = last.slice(last.lastIndexOf("\r") + 1);
    const bare = Anser.ansiToText(shown);
    const isError = ERROR.test(bare);
    if (isError) isInTrace = bare.startsWith("Traceback");
    const inTrace = isInTrace && /^\s/.test(bare);
    return { number: index + 1, text: shown, level: isError || inTrace ? "error" : WARNING.test(bare) ? "warning" : "" };
  });
}

function useLog(run: string, task: string, attempt: number, isRunning: boolean) {
  const at = useWorkspace();
  const [state, setState] = useState<{ text: string; isCut: boolean; isLoaded: boolean; error: Problem | null }>({ text: "", isCut: false, isLoaded: false, error: null });
  useEffect(() => {
    const stopping = new AbortController();
    setState({ text: "", isCut: false, isLoaded: false, error: null });
    let start = 0;
    let timer: ReturnType<typeof setTimeout>;
    const next = async (): Promise<void> => {
      try {
        const part = await read(at, "/runs/{run_id}/tasks/{task_id}/log", { run_id: run, task_id: task }, { attempt, start, length: PART }, undefined, stopping.signal);
        const got = part.end > start;
        start = part.end;
        setState((old) => {
          const text = old.text + part.text;
          return { text: text.slice(-MOST_CHARS), isCut: old.isCut || text.length > MOST_CHARS, isLoaded: true, error: null };
        });
        if (got) timer = setTimeout(() => void next(), 0);
        else if (!part.is_complete && isRunning) timer = setTimeout(() => void next(), 1_500);
      } catch (error) {
        if (!stopping.signal.aborted) setState((old) => ({ ...old, isLoaded: true, error: error as Problem }));
      }
    };
    void next();
    return () => {
      stopping.abort();
      clearTimeout(timer);
    };
  }, [at.tenant, at.workspace, run, task, attempt, isRunning]);
  return state;
}

export function LogView({ run, task, attempt, isRunning, isFailed }: { run: string; task: string; attempt: number; isRunning: boolean; isFailed: boolean }) {
  const [shownAttempt, setAttempt] = useState(attempt);
  useEffect(() => setAttempt(attempt), [attempt]);
  const log = useLog(run, task, shownAttempt, isRunning);
  const [text, setText] = useState("");
  const [level, setLevel] = useState<"all" | "errors">(isFailed ? "errors" : "all");
  const lines = useMemo(() => logLines(log.text), [log.text]);
  const errors = useMemo(() => lines.filter((line) => line.level === "error").length, [lines]);
  const shown = useMemo(() => {
    const wanted = text.toLowerCase();
    const kept = level === "errors" && errors ? lines.filter((line) => line.level === "error") : lines;
    return wanted ? kept.filter((line) => line.text.toLowerCase().includes(wanted)) : kept;
  }, [lines, text, level, errors]);
  const scroll = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({ count: shown.length, getScrollElement: () => scroll.current, estimateSize: () => 19, overscan: 20 });
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (isRunning && isAtEnd.current && shown.length) virtual.scrollToIndex(shown.length - 1);
  }, [shown.length, isRunning, virtual]);
  return (
    <>
      <div className="toolbar" style={{ padding: "8px 16px" }}>
        <SearchField label="Search the log" value={text} onChange={setText} />
        <Choice label="Lines" value={level} options={[["all", "All lines"], ["errors", `Errors (${count(errors)})`]]} onChange={setLevel} />
        {attempt > 1 ? <Choice label="Attempt" value={String(shownAttempt)} options={Array.from({ length: attempt }, (_, at) => [String(at + 1), `Attempt ${at + 1}`] as const)} onChange={(value) => setAttempt(Number(value))} /> : null}
        <span className="spring" />
        <span className="muted num small">{log.text ? plural(shown.length, "line") : ""}{log.isCut ? ", the newest" : ""}{isRunning ? ", live" : ""}</span>
      </div>
      {log.error ? <div className="body"><ProblemNote error={log.error} /></div> : null}
      {!log.isLoaded ? <Skeleton /> : log.text === "" ? <Empty title="It printed nothing" /> : (
        <div
          className="log"
          ref={scroll}
          tabIndex={0}
          role="log"
          aria-label="Log"
          aria-live="off"
          onScroll={(event) => { const box = event.currentTarget; isAtEnd.current = box.scrollTop + box.clientHeight > box.scrollHeight - 40; }}
        >
          <div style={{ height: virtual.getTotalSize(), position: "relative" }}>
            {virtual.getVirtualItems().map((item) => {
              const line = shown[item.index]!;
              return (
                <div key={line.number} ref={virtual.measureElement} data-index={item.index} className={`line ${line.level}`} style={{ position: "absolute", top: 0, left: 0, right: 0, transform: `translateY(${item.start}px)` }}>
                  <span className="number">{line.number}</span>
                  <bdi><Coloured text={line.text} wanted={text} /></bdi>
                </div>
              );
            })}
          </div>
        </div>
      )}
    </>
  );
}

function Coloured({ text, wanted }: { text: string; wanted: string }) {
  return Anser.ansiToJson(text, { use_classes: true, remove_empty: true }).map((part, index) => (
    <span key={index} className={[part.fg, ...part.decorations.map((name) => `ansi-${name}`)].filter(Boolean).join(" ") || undefined}>
      <Marked text={part.content} wanted={wanted} />
    </span>
  ));
}

function Marked({ text, wanted }: { text: string; wanted: string }) {
  const at = wanted ? text.toLowerCase().indexOf(wanted.toLowerCase()) : -1;
  if (at < 0) return text;
  return (
    <>
      {text.slice(0, at)}
      <mark>{text.slice(at, at + wanted.length)}</mark>
      {text.slice(at + wanted.length)}
    </>
  );
}
