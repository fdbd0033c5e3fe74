/** The slider that moves the whole application to another generation. */
import { useNavigate } from "@tanstack/react-router";
import { History, X } from "lucide-react";
import { useMemo } from "react";
import { useList } from "../api/hooks";
import { useMoment } from "../api/workspace";
import { Time } from "../design/values";

export function TimeStrip({ onClose }: { onClose: () => void }) {
  const moment = useMoment();
  const navigate = useNavigate();
  const list = useList("/generations", { at: "now" });
  const kept = useMemo(() => [...list.items].reverse(), [list.items]);
  const place = moment.isLive ? kept.length - 1 : kept.findIndex((each) => each.number >= (moment.generation ?? 0));
  const current = kept[Math.max(0, place)];
  const go = (generation: number | undefined) =>
    void navigate({ to: ".", search: (old: Record<string, unknown>) => ({ ...old, generation }), replace: true });
  return (
    <div className={moment.isLive ? "time-strip" : "time-strip past"} role="group" aria-label="Time travel">
      <History size={15} aria-hidden />
      <span className="label">
        {moment.isLive ? "Live" : "Past"}: generation <strong className="num">{moment.generation}</strong>
        {current ? (
          <span className="muted">
            {" · "}
            <Time at={current.published_at} />
          </span>
        ) : null}
      </span>
      {list.hasMore ? (
        <button type="button" className="button quiet" onClick={list.more}>
          Older
        </button>
      ) : null}
      <input
        type="range"
        aria-label="Generation"
        aria-valuetext={current ? `generation ${current.number}` : undefined}
        min={0}
        max={Math.max(0, kept.length - 1)}
        value={Math.max(0, place)}
        disabled={kept.length < 2}
        onChange={(event) => {
          const at = Number(event.target.value);
          go(at === kept.length - 1 ? undefined : kept[at]?.number);
        }}
      />
      {moment.isLive ? null : (
        <button type="button" className="button" onClick={() => go(undefined)}>
          Back to live
        </button>
      )}
      <button type="button" className="button quiet icon" aria-label="Close time travel" onClick={() => (go(undefined), onClose())}>
        <X size={15} />
      </button>
    </div>
  );
}
