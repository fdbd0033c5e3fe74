/** The editor of the SQL console. It is in a shadow root, where its styles need no `style` element. */
import { sql, StandardSQL } from "@codemirror/lang-sql";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Compartment, Prec } from "@codemirror/state";
import { keymap } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { basicSetup, EditorView } from "codemirror";
import { useEffect, useRef } from "react";

const theme = EditorView.theme({
  "&": { fontSize: "13px", backgroundColor: "transparent", color: "var(--text)" },
  "&.cm-focused": { outline: "none" },
  ".cm-content": { fontFamily: "var(--mono)", caretColor: "var(--text)", padding: "10px 0" },
  ".cm-gutters": { backgroundColor: "transparent", border: "none", color: "var(--faint)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "transparent" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selected) !important" },
  ".cm-tooltip": { backgroundColor: "var(--raised)", border: "1px solid var(--line-strong)", color: "var(--text)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--selected)", color: "var(--text)" },
});
const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--accent)", fontWeight: "600" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--good)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--held)" },
  { tag: tags.comment, color: "var(--faint)", fontStyle: "italic" },
]);

export function SqlEditor({ value, tables, onChange, onRun }: { value: string; tables: Record<string, string[]>; onChange: (text: string) => void; onRun: () => void }) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const language = useRef(new Compartment());
  const latest = useRef({ onChange, onRun });
  latest.current = { onChange, onRun };
  useEffect(() => {
    const element = host.current!;
    const root = element.shadowRoot ?? element.attachShadow({ mode: "open" });
    const parent = document.createElement("div");
    root.append(parent);
    const editor = new EditorView({
      doc: value,
      root,
      parent,
      extensions: [
        Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => (latest.current.onRun(), true) }])),
        basicSetup,
        language.current.of([]),
        syntaxHighlighting(colours),
        theme,
        EditorView.contentAttributes.of({ "aria-label": "SQL" }),
        EditorView.updateListener.of((update) => update.docChanged && latest.current.onChange(update.state.doc.toString())),
      ],
    });
    view.current = editor;
    return () => {
      editor.destroy();
      parent.remove();
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the text of the editor is its own
  }, []);
  // Names of tables come later than the editor: what somebody is typing, and the focus, stay.
  useEffect(() => {
    const known = sql({ dialect: StandardSQL, schema: tables, upperCaseKeywords: true });
    view.current?.dispatch({ effects: language.current.reconfigure(known) });
  }, [tables]);
  useEffect(() => {
    const editor = view.current;
    if (editor && editor.state.doc.toString() !== value) editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: value } });
  }, [value]);
  return <div className="editor" ref={host} />;
}
