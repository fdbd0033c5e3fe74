/** Text that somebody types, at once for the page and a moment later for the URL. */
import { useEffect, useRef, useState } from "react";
import { SearchField } from "../design/parts";

const PAUSE_MS = 250;

/** `value` is what the URL has, `commit` changes it. */
export function useTyped(value: string, commit: (text: string) => void): [string, (text: string) => void] {
  const [text, setText] = useState(value);
  const known = useRef(value);
  const latest = useRef(commit);
  useEffect(() => {
    latest.current = commit;
  });
  useEffect(() => {
    if (value === known.current) return;
    known.current = value; // of a link, or the browser's buttons
    setText(value);
  }, [value]);
  useEffect(() => {
    if (text === known.current) return;
    const timer = setTimeout(() => {
      known.current = text;
      latest.current(text);
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return [text, setText];
}

/** A field for what the URL has. */
export function TypedSearch({ label, value, onChange }: { label: string; value: string; onChange: (text: string) => void }) {
  const [text, setText] = useTyped(value, onChange);
  return <SearchField label={label} value={text} onChange={setText} />;
}
