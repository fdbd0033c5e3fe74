/** Parts of pages. Dialogs and fields are the platform's own elements: they have focus and keys right. */
import { CircleAlert, Inbox, Search } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef } from "react";
import { Problem } from "../api/client";

export function Page({ title, lead, actions, full, children }: { title: ReactNode; lead?: ReactNode; actions?: ReactNode; full?: boolean; children: ReactNode }) {
  return (
    <div className={full ? "page full" : "page"}>
      <div className="page-head">
        <div className="titles">
          <h1>{title}</h1>
          {lead ? <p>{lead}</p> : null}
        </div>
        {actions ? <div className="actions">{actions}</div> : null}
      </div>
      {children}
    </div>
  );
}

/** `fill` takes the height that is left; `share` says how much of it beside other such panels. */
export function Panel({ title, count, actions, fill, share, children }: { title?: ReactNode; count?: ReactNode; actions?: ReactNode; fill?: boolean; share?: number; children: ReactNode }) {
  const id = useId();
  return (
    <section className={fill ? "panel fill" : "panel"} style={share === undefined ? undefined : { flexGrow: share }} aria-labelledby={title ? id : undefined}>
      {title ? (
        <header>
          <h2 id={id}>
            {title} {count !== undefined ? <span className="count num">{count}</span> : null}
          </h2>
          {actions}
        </header>
      ) : null}
      {children}
    </section>
  );
}

export function Empty({ title, children, icon }: { title: string; children?: ReactNode; icon?: ReactNode }) {
  return (
    <div className="empty">
      {icon ?? <Inbox size={22} strokeWidth={1.6} aria-hidden />}
      <strong>{title}</strong>
      {children ? <div>{children}</div> : null}
    </div>
  );
}

export function Skeleton({ rows = 5 }: { rows?: number }) {
  return (
    <div className="skeleton-rows" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => (
        <span key={at} className="skeleton" style={{ width: `${92 - ((at * 17) % 40)}%` }} />
      ))}
    </div>
  );
}

export function ProblemNote({ error }: { error: unknown }) {
  const problem = error instanceof Problem ? error : null;
  return (
    <div className="problem" role="alert">
      <CircleAlert size={16} aria-hidden />
      <div>
        <strong>{error instanceof Error ? error.message : "Something failed."}</strong>
        {problem?.hint ? <p>{problem.hint}</p> : null}
        {problem?.details.request_id ? <p className="small muted mono">request {problem.details.request_id}</p> : null}
      </div>
    </div>
  );
}

/** What a read has: an error, nothing yet, or data. */
export function Loaded<T>({ result, rows, children }: { result: { data?: T | undefined; error: unknown; isPending: boolean }; rows?: number; children: (data: T) => ReactNode }) {
  if (result.error && result.data === undefined) return <div className="body"><ProblemNote error={result.error} /></div>;
  if (result.data === undefined) return <Skeleton rows={rows} />;
  return <>{children(result.data)}</>;
}

export function SearchField({ value, onChange, label, autoFocus }: { value: string; onChange: (text: string) => void; label: string; autoFocus?: boolean }) {
  return (
    <span className="search-field">
      <Search size={14} aria-hidden />
      <input
        className="field"
        type="search"
        aria-label={label}
        placeholder={label}
        value={value}
        autoFocus={autoFocus}
        spellCheck={false}
        data-search
        onChange={(event) => onChange(event.target.value)}
      />
    </span>
  );
}

export function Choice<T extends string>({ label, value, options, onChange }: { label: string; value: T; options: readonly (readonly [T, string])[]; onChange: (value: T) => void }) {
  return (
    <select className="field" aria-label={label} value={value} onChange={(event) => onChange(event.target.value as T)}>
      {options.map(([each, text]) => (
        <option key={each} value={each}>
          {text}
        </option>
      ))}
    </select>
  );
}

/** A modal dialog. It closes with Escape; focus goes back to where it was. */
export function Dialog({ title, open, onClose, footer, className, children }: { title?: string; open: boolean; onClose: () => void; footer?: ReactNode; className?: string; children: ReactNode }) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    if (!dialog) return;
    if (open && !dialog.open) dialog.showModal();
    if (!open && dialog.open) dialog.close();
  }, [open]);
  return (
    <dialog
      ref={element}
      className={className}
      aria-labelledby={title ? id : undefined}
      aria-label={title ? undefined : "Search"}
      onClose={onClose}
      onMouseDown={(event) => event.target === element.current && onClose()}
    >
      {open ? (
        <>
          {title ? (
            <header>
              <h2 id={id}>{title}</h2>
            </header>
          ) : null}
          {title ? <div className="body">{children}</div> : children}
          {footer ? <footer>{footer}</footer> : null}
        </>
      ) : null}
    </dialog>
  );
}

export interface Share {
  tone: string;
  value: number;
  label: string;
}

/** How a whole is divided. The title says it in words. */
export function Bar({ shares }: { shares: Share[] }) {
  const total = shares.reduce((sum, share) => sum + share.value, 0);
  const shown = shares.filter((share) => share.value > 0);
  const text = shown.map((share) => `${share.value} ${share.label}`).join(", ") || "none";
  return (
    <span className="bar" role="img" aria-label={text} title={text}>
      {shown.map((share) => (
        <span key={share.label} className={share.tone} style={{ width: `${(100 * share.value) / total}%` }} />
      ))}
    </span>
  );
}
