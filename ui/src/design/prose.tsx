/** Markdown that people wrote: no HTML, links only to the web and to addresses of mail. */
import { lazy, Suspense } from "react";

const Markdown = lazy(() => import("react-markdown"));
const isSafe = (url: string): boolean => /^(https?:|mailto:|\/(?!\/)|#)/i.test(url);

export function Prose({ children }: { children: string }) {
  return (
    <div className="prose" dir="auto">
      <Suspense fallback={<bdi>{children}</bdi>}>
        <Markdown
          urlTransform={(url) => (isSafe(url) ? url : "")}
          components={{
            a: ({ href, children: text }) =>
              href ? (
                <a href={href} rel="noopener noreferrer nofollow" target="_blank">
                  {text}
                </a>
              ) : (
                <span>{text}</span>
              ),
            img: ({ alt }) => <span className="muted">[picture: {alt}]</span>,
          }}
        >
          {children}
        </Markdown>
      </Suspense>
    </div>
  );
}
