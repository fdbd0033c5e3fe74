/** Links to the parts of a page. Where they are wider than the window they scroll, and the current one is in sight. */
import { type ReactNode, useLayoutEffect, useRef } from "react";

export function Tabs({ label, children }: { label: string; children: ReactNode }) {
  const element = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const box = element.current!;
    const current = box.querySelector<HTMLElement>("[aria-current=page]");
    if (!current) return;
    const begin = current.offsetLeft - box.offsetLeft;
    if (begin < box.scrollLeft || begin + current.offsetWidth > box.scrollLeft + box.clientWidth) box.scrollLeft = begin - (box.clientWidth - current.offsetWidth) / 2;
  });
  return (
    <nav ref={element} className="tabs" aria-label={label}>
      {children}
    </nav>
  );
}
