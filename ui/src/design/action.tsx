/** Actions: a button, a dialog that says what will happen, and what became of it. */
import { type ReactNode, useState } from "react";
import { useMoment } from "../api/workspace";
import { Dialog, ProblemNote } from "./parts";

export interface ActionProps {
  label: string;
  icon?: ReactNode;
  /** The heading of the dialog: a question that the confirming button answers. */
  title: string;
  confirm: string;
  danger?: boolean;
  primary?: boolean;
  /** Whether people are asked why. */
  reason?: "none" | "optional" | "required";
  disabled?: boolean;
  /** `key` stays the same while the dialog is open: confirming twice has the effect once. */
  run: (reason: string, key: string) => Promise<unknown>;
  children?: ReactNode;
}

/** A button with a dialog. It is not there while the page shows the past. */
export function Action({ label, icon, title, confirm, danger, primary, reason = "optional", disabled, run, children }: ActionProps) {
  const moment = useMoment();
  const [key, setKey] = useState("");
  const [text, setText] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  if (!moment.isLive) return null;
  const close = () => setKey("");
  const open = () => {
    setText("");
    setError(null);
    setKey(crypto.randomUUID());
  };
  const perform = async () => {
    setBusy(true);
    setError(null);
    try {
      await run(text.trim(), key);
      close();
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const isMissing = reason === "required" && !text.trim();
  return (
    <>
      <button type="button" className={`button${primary ? " primary" : ""}${danger ? " danger" : ""}`} onClick={open} disabled={disabled}>
        {icon}
        {label}
      </button>
      <Dialog
        title={title}
        open={key !== ""}
        onClose={close}
        footer={
          <>
            <button type="button" className="button" onClick={close}>
              Back
            </button>
            <button type="button" className={danger ? "button danger" : "button primary"} disabled={isBusy || isMissing} onClick={() => void perform()}>
              {isBusy ? "Working…" : confirm}
            </button>
          </>
        }
      >
        <div className="stack">
          {children}
          {reason === "none" ? null : (
            <label className="labelled">
              <span>Reason{reason === "required" ? "" : " (optional)"}</span>
              <input className="field" value={text} autoFocus onChange={(event) => setText(event.target.value)} />
            </label>
          )}
          {error ? <ProblemNote error={error} /> : null}
        </div>
      </Dialog>
    </>
  );
}

/** A field of a form with its label. */
export function Field({ label, hint, value, onChange, placeholder, autoFocus, type = "text" }: { label: string; hint?: string; value: string; onChange: (value: string) => void; placeholder?: string; autoFocus?: boolean; type?: string }) {
  return (
    <label className="labelled">
      <span>{label}</span>
      <input className="field" type={type} value={value} placeholder={placeholder} autoFocus={autoFocus} spellCheck={false} onChange={(event) => onChange(event.target.value)} />
      {hint ? <small className="muted">{hint}</small> : null}
    </label>
  );
}

/** Words between blanks or commas. */
export const words = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean);
