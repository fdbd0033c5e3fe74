/** Pages for what cannot be shown. */
import { Link } from "@tanstack/react-router";
import { Problem } from "../api/client";
import { useSession } from "../api/permissions";

export function Fault({ number, title, children }: { number?: string; title: string; children?: React.ReactNode }) {
  return (
    <main className="fault" aria-live="polite">
      {number ? <span className="number">{number}</span> : null}
      <h1>{title}</h1>
      {children}
    </main>
  );
}

export function ExpiredPage() {
  const session = useSession();
  if (session.isPending) return null;
  if (session.data?.login) {
    const here = encodeURIComponent(location.pathname + location.search);
    return (
      <Fault number="401" title="You are not signed in">
        <p>Your session has ended, or this browser has none. After the login you come back to this page.</p>
        <a className="button primary" href={`${session.data.login}?next=${here}`}>
          Log in
        </a>
      </Fault>
    );
  }
  return (
    <Fault number="401" title="You are not signed in">
      <p>
        Your session has ended, or this browser has none. Open the link that <code>servo serve</code> printed when it
        started (it works once; start the server again for a new one), then come back to this page.
      </p>
      <button type="button" className="button" onClick={() => location.reload()}>
        Try again
      </button>
    </Fault>
  );
}

export function NotFoundPage({ what = "page" }: { what?: string }) {
  return (
    <Fault number="404" title={`There is no such ${what}`}>
      <p>It does not exist, or you may not see it. Ask somebody who sees it for access if you expected it here.</p>
      <Link to="/" className="button">
        Go to the overview
      </Link>
    </Fault>
  );
}

export function FaultPage({ error, what }: { error: unknown; what?: string }) {
  if (error instanceof Problem) {
    if (error.status === 401) return <ExpiredPage />;
    if (error.status === 404) return <NotFoundPage what={what} />;
    if (error.status === 403)
      return (
        <Fault number="403" title="You may not do this">
          <p>{error.message}</p>
          {error.hint ? <p>{error.hint}</p> : null}
        </Fault>
      );
    if (error.status === 0)
      return (
        <Fault title="The server cannot be reached">
          <p>The page goes on by itself when the server answers again.</p>
          <button type="button" className="button" onClick={() => location.reload()}>
            Try again
          </button>
        </Fault>
      );
    return (
      <Fault number={String(error.status)} title="The server failed">
        <p>{error.message}</p>
        {error.hint ? <p>{error.hint}</p> : null}
        {error.details.request_id ? <p className="mono small">request {error.details.request_id}</p> : null}
        <button type="button" className="button" onClick={() => location.reload()}>
          Try again
        </button>
      </Fault>
    );
  }
  return (
    <Fault title="The page failed">
      <p>{error instanceof Error ? error.message : String(error)}</p>
      <button type="button" className="button" onClick={() => location.reload()}>
        Load it again
      </button>
    </Fault>
  );
}
