/** ⌘K: find an asset, or go to a page. */
import { ArrowRight, Search, Table2 } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useDeferredValue, useEffect, useState } from "react";
import { useRead } from "../api/hooks";
import { usePermissions } from "../api/permissions";
import { Dialog } from "../design/parts";
import { Name } from "../design/values";
import { useGo } from "./link";
import { NAVIGATION } from "./navigation";

interface Option {
  key: string;
  title: ReactNode;
  hint: string;
  icon: ReactNode;
  go: () => void;
}

export function Palette({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog className="palette" open={open} onClose={onClose}>
      <PaletteBody onClose={onClose} />
    </Dialog>
  );
}

function PaletteBody({ onClose }: { onClose: () => void }) {
  const go = useGo();
  const permissions = usePermissions();
  const [text, setText] = useState("");
  const [active, setActive] = useState(0);
  const asked = useDeferredValue(text.trim());
  const found = useRead("/search", { query: { q: asked, limit: 20 }, enabled: asked.length > 0 });
  useEffect(() => setActive(0), [asked]);
  const pages: Option[] = NAVIGATION.flatMap((group) => group.entries)
    .filter((entry) => permissions.has(entry.permission) && entry.title.toLowerCase().includes(asked.toLowerCase()))
    .map((entry) => ({
      key: entry.to,
      title: entry.title,
      hint: `g ${entry.keys}`,
      icon: <entry.icon size={15} aria-hidden />,
      go: () => go(entry.to),
    }));
  const assets: Option[] = (asked ? (found.data?.hits ?? []) : []).map((hit) => ({
    key: `asset:${hit.asset}`,
    title: <Name mono>{hit.asset}</Name>,
    hint: hit.description,
    icon: <Table2 size={15} aria-hidden />,
    go: () => go("/assets/$asset", { asset: hit.asset }),
  }));
  const groups: [string, Option[]][] = [
    ["Assets", assets],
    ["Pages", pages],
  ];
  const options = groups.flatMap(([, each]) => each);
  const choose = (option: Option | undefined) => {
    if (!option) return;
    onClose();
    option.go();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const move = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (move) {
      event.preventDefault();
      setActive((active + move + options.length) % Math.max(1, options.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(options[active]);
    }
  };
  let place = -1;
  return (
    <>
      <div className="entry">
        <Search size={16} aria-hidden />
        <input
          autoFocus
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-results"
          aria-activedescendant={options[active] ? `palette-${active}` : undefined}
          aria-label="Search assets and pages"
          placeholder="Search assets, columns, owners, tags…"
          spellCheck={false}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKeyDown}
        />
        <kbd>esc</kbd>
      </div>
      <div className="results" id="palette-results" role="listbox" aria-label="Results">
        {groups.map(([title, each]) =>
          each.length ? (
            <div key={title} role="group" aria-label={title}>
              <div className="group" role="presentation">
                {title}
              </div>
              {each.map((option) => {
                place += 1;
                const mine = place;
                return (
                  <div
                    key={option.key}
                    id={`palette-${mine}`}
                    role="option"
                    aria-selected={mine === active}
                    className="option"
                    ref={(element) => {
                      if (mine === active) element?.scrollIntoView({ block: "nearest" });
                    }}
                    onMouseMove={() => setActive(mine)}
                    onClick={() => choose(option)}
                  >
                    {option.icon}
                    <span className="truncate">{option.title}</span>
                    <span className="hint truncate">{option.hint}</span>
                  </div>
                );
              })}
            </div>
          ) : null,
        )}
        {options.length === 0 ? <div className="empty">{found.isFetching ? "Searching…" : "Nothing has this name, tag, owner or column."}</div> : null}
      </div>
      <footer>
        <kbd>↑</kbd>
        <kbd>↓</kbd> choose <kbd>↵</kbd> open <ArrowRight size={12} aria-hidden /> <span>tag:pii, owner:ana and column:amount narrow a search</span>
      </footer>
    </>
  );
}
