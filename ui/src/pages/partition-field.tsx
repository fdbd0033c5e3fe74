/** The partition that a view of an asset is about. It is asked for when it is written whole: after Enter, or when the field is left. */
import { useEffect, useState } from "react";
import { useSetSearch } from "../layout/link";
import { assetRoute } from "./asset";

/** `shown`: the partition that was chosen for a caller who named none. */
export function PartitionField({ shown }: { shown: string }) {
  const { partition = "" } = assetRoute.useSearch();
  const set = useSetSearch();
  const [text, setText] = useState(partition);
  useEffect(() => setText(partition), [partition]);
  const commit = () => {
    if (text.trim() !== partition) set({ partition: text.trim() || undefined });
  };
  return (
    <form
      className="partition-field"
      onSubmit={(event) => {
        event.preventDefault();
        commit();
      }}
    >
      <label>
        <span className="muted small">Partition</span>
        <input className="field mono" value={text} placeholder={shown || "date=2026-01-31"} spellCheck={false} data-search onChange={(event) => setText(event.target.value)} onBlur={commit} />
      </label>
      {partition ? (
        <button type="button" className="button quiet" onClick={() => set({ partition: undefined })}>
          Default
        </button>
      ) : null}
    </form>
  );
}
