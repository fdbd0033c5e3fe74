/** What is around every page: side bar, top bar, time strip, ⌘K. Pages do not know of it. */
import { useQuery } from "@tanstack/react-query";
import { Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { History, Menu, Monitor, Moon, Search, Sun } from "lucide-react";
import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { readWorkspaces } from "../api/client";
import { useCan, usePermissions, useSession } from "../api/permissions";
import { PlaceProvider, useMoment, useWorkspace } from "../api/workspace";
import { Choice } from "../design/parts";
import icon from "../design/icon.svg";
import { Live } from "../live/live";
import { warmBrowserEngine } from "../query/engine";
import { DevelopmentNote } from "./development";
import { ExpiredPage, FaultPage } from "./faults";
import { PageLink, useGo } from "./link";
import { NAVIGATION } from "./navigation";
import { Palette } from "./palette";
import { setTheme, type Theme, useTheme } from "./theme";
import { TimeStrip } from "./time-strip";

function useLive() {
  const { tenant, workspace } = useWorkspace();
  const [live, setLive] = useState<Live | null>(null);
  useEffect(() => {
    const made = new Live({ tenant, workspace });
    setLive(made);
    return () => made.close();
  }, [tenant, workspace]);
  const nothing = () => () => undefined;
  return useSyncExternalStore(live?.subscribe ?? nothing, () => live?.status ?? "connecting");
}

/** ⌘K or / searches, g and a letter goes to a page, t opens time travel. */
function useKeys(openPalette: () => void, toggleTime: () => void) {
  const go = useGo();
  const afterG = useRef(0);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        openPalette();
        return;
      }
      const target = event.target as HTMLElement;
      if (event.metaKey || event.ctrlKey || event.altKey || target.closest("input, textarea, select, dialog, [contenteditable], .editor")) return;
      if (event.key === "/") {
        event.preventDefault();
        const field = document.querySelector<HTMLInputElement>(".main [data-search]");
        if (field) field.focus();
        else openPalette();
      } else if (event.key === "g") afterG.current = Date.now();
      else if (Date.now() - afterG.current < 1_200) {
        const entry = NAVIGATION.flatMap((group) => group.entries).find((each) => each.keys === event.key);
        afterG.current = 0;
        if (entry) go(entry.to);
      } else if (event.key === "t") toggleTime();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  });
}

/** DuckDB loads when the page is at rest, for those who may read files; until then the server answers. */
function useBrowserEngine() {
  const mayReadFiles = useCan("metadata.read_all");
  useEffect(() => {
    if (!mayReadFiles) return;
    const timer = setTimeout(warmBrowserEngine, 2_000);
    return () => clearTimeout(timer);
  }, [mayReadFiles]);
}

const THEMES: Record<Theme, [Theme, typeof Sun, string]> = {
  system: ["light", Monitor, "as the system"],
  light: ["dark", Sun, "light"],
  dark: ["system", Moon, "dark"],
};

export const Shell = () => (
  <PlaceProvider>
    <Surroundings />
  </PlaceProvider>
);

function Surroundings() {
  const at = useWorkspace();
  const session = useSession();
  const status = useLive();
  const moment = useMoment();
  const theme = useTheme();
  const [isPaletteOpen, setPaletteOpen] = useState(false);
  const [isTimeOpen, setTimeOpen] = useState(false);
  const [isMenuOpen, setMenuOpen] = useState(false);
  useKeys(
    () => setPaletteOpen(true),
    () => setTimeOpen((open) => !open),
  );
  useBrowserEngine();
  const [next, ThemeIcon, themeText] = THEMES[theme];
  if (status === "expired" || session.data?.caller === null) return <ExpiredPage />;
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <SideBar isOpen={isMenuOpen} onClose={() => setMenuOpen(false)} />
      <header className="topbar">
        <button type="button" className="button quiet icon menu-button" aria-label="Menu" aria-expanded={isMenuOpen} onClick={() => setMenuOpen(!isMenuOpen)}>
          <Menu size={17} />
        </button>
        <WorkspaceChoice />
        <span className="spring" />
        <button type="button" className="button open-search" onClick={() => setPaletteOpen(true)}>
          <Search size={14} aria-hidden />
          <span>Search</span>
          <kbd>{navigator.platform.startsWith("Mac") ? "⌘K" : "Ctrl K"}</kbd>
        </button>
        <button type="button" className="button quiet" aria-pressed={isTimeOpen || !moment.isLive} onClick={() => setTimeOpen(!isTimeOpen)} title={liveText(status)}>
          <span className={`live-dot ${moment.isLive ? status : "past"}`} aria-hidden />
          <span className="hide-narrow">{moment.isLive ? (status === "offline" ? "Server gone" : "Live") : "Past"}</span>
          <span className="num faint">{moment.generation ?? ""}</span>
          <History size={14} aria-hidden />
          <span className="visually-hidden">Time travel</span>
        </button>
        <button type="button" className="button quiet icon" aria-label={`Colours: ${themeText}`} title={`Colours: ${themeText}`} onClick={() => setTheme(next)}>
          <ThemeIcon size={15} />
        </button>
      </header>
      <div className="main" id="main" tabIndex={-1}>
        {isTimeOpen || !moment.isLive ? <TimeStrip onClose={() => setTimeOpen(false)} /> : null}
        {status === "offline" ? (
          <div className="notice" role="status">
            The server does not answer. The page goes on by itself when it does.
          </div>
        ) : null}
        {session.data?.development ? <DevelopmentNote path={session.data.development} /> : null}
        <main className="content" key={`${at.tenant}/${at.workspace}`}>
          {session.error && !session.data ? <FaultPage error={session.error} /> : <Outlet />}
        </main>
      </div>
      <Palette open={isPaletteOpen} onClose={() => setPaletteOpen(false)} />
    </div>
  );
}

const liveText = (status: string): string =>
  ({
    live: "Changes are shown as they are committed.",
    polling: "No stream of events: asking every few seconds.",
    connecting: "Connecting…",
    offline: "The server does not answer.",
    expired: "The session has ended.",
  })[status] ?? status;

function WorkspaceChoice() {
  const at = useWorkspace();
  const navigate = useNavigate();
  const workspaces = useQuery({ queryKey: ["workspaces"], queryFn: readWorkspaces, staleTime: 60_000, retry: false });
  const items = workspaces.data?.items ?? [];
  if (items.length < 2)
    return (
      <span className="where">
        <span className="faint tenant">{at.tenant} /</span> <span className="truncate">{at.workspace}</span>
      </span>
    );
  const names = items.map((each) => [`${each.tenant}/${each.workspace}`, `${each.tenant} / ${each.workspace}`] as const);
  return (
    <Choice
      label="Workspace"
      value={`${at.tenant}/${at.workspace}`}
      options={names}
      onChange={(name) => {
        const [tenant, workspace] = name.split("/") as [string, string];
        void navigate({ to: "/w/$tenant/$workspace", params: { tenant, workspace }, search: {} });
      }}
    />
  );
}

function SideBar({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const { pathname } = useLocation();
  const place = `/${pathname.split("/").slice(4).join("/")}`;
  const isIn = (to: string) => (to === "" ? place === "/" : place === to || place.startsWith(`${to}/`));
  const caller = useSession().data?.caller;
  const permissions = usePermissions();
  return (
    <nav className={isOpen ? "sidebar open" : "sidebar"} aria-label="Pages" onClick={onClose}>
      <PageLink to="" className="brand">
        <img src={icon} alt="" />
        Arco
      </PageLink>
      {NAVIGATION.map((group) => {
        const entries = group.entries.filter((entry) => permissions.has(entry.permission));
        return entries.length ? (
          <div key={group.title}>
            {group.title ? <h3>{group.title}</h3> : null}
            {entries.map((entry) => (
              <PageLink key={entry.to} to={entry.to} className="item" current={isIn(entry.to)}>
                <entry.icon size={15} aria-hidden />
                {entry.title}
              </PageLink>
            ))}
          </div>
        ) : null;
      })}
      <div className="foot truncate" title={caller ? `${caller.kind} ${caller.id}` : undefined}>
        {caller ? caller.name || caller.id : ""}
      </div>
    </nav>
  );
}
