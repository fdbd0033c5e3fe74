/** Columns with their classes, where each comes from, and how the schema changed. */
import { Waypoints } from "lucide-react";
import { useList, useRead } from "../api/hooks";
import { Empty, Loaded, Panel, ProblemNote, Skeleton } from "../design/parts";
import { State } from "../design/states";
import { count, Name, plural, Time } from "../design/values";
import { AssetLink, PageLink, RunLink } from "../layout/link";
import { assetRoute } from "./asset";

export function AssetColumns({ asset }: { asset: string }) {
  const { column } = assetRoute.useSearch();
  const list = useList("/assets/{asset}/columns", { path: { asset } });
  return (
    <>
      <Panel title="Columns" count={count(list.items.length)} actions={list.hasMore ? <button type="button" className="button" onClick={list.more}>More</button> : null}>
        {list.error ? <div className="body"><ProblemNote error={list.error} /></div> : list.isPending ? <Skeleton /> : list.items.length ? (
          <div className="table-wrap">
            <table className="table">
              <thead>
                <tr><th>Name</th><th>Type</th><th>Class</th><th>Description</th><th>Terms</th><th /></tr>
              </thead>
              <tbody>
                {list.items.map((each) => (
                  <tr key={each.column_id} aria-selected={each.name === column}>
                    <td>
                      <Name mono>{each.name}</Name>{" "}
                      {each.status === "Inactive" ? <State state="REMOVED" text="Gone" /> : null}
                      {each.difference ? <State state="WARNED" text={differenceText(each.difference, each.actual_type ?? "")} /> : null}
                    </td>
                    <td className="mono muted">{each.type || each.actual_type}{each.nullable ? "" : " not null"}</td>
                    <td>
                      <span className="tags">
                        {each.pii ? <span className="tag held" title="personal data"><Name>{each.pii}</Name></span> : null}
                        {each.sensitivity ? <span className="tag"><Name>{each.sensitivity}</Name></span> : null}
                      </span>
                    </td>
                    <td className="muted"><Name>{each.description}</Name></td>
                    <td><span className="tags">{each.terms?.map((term) => <span key={term} className="tag"><Name>{term}</Name></span>)}</span></td>
                    <td className="num"><PageLink to="/assets/$asset" params={{ asset }} search={{ view: "columns", column: each.name }} className="link">Lineage</PageLink></td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        ) : <Empty title="No column is known">Columns are known when code declares them, or when the asset was materialized.</Empty>}
      </Panel>
      {column ? <ColumnLineage asset={asset} column={column} /> : null}
      <SchemaHistory asset={asset} />
    </>
  );
}

const differenceText = (difference: string, actual: string): string =>
  difference === "type" ? `is ${actual}` : difference === "missing" ? "missing in the data" : "not declared";

function ColumnLineage({ asset, column }: { asset: string; column: string }) {
  const up = useRead("/assets/{asset}/upstream", { path: { asset }, query: { column, depth: 10 } });
  const down = useRead("/assets/{asset}/impact", { path: { asset }, query: { column } });
  return (
    <>
    <div className="toolbar">
      <PageLink to="/lineage" search={{ asset, column }} className="button"><Waypoints size={14} aria-hidden /> Path of <Name mono>{column}</Name></PageLink>
    </div>
    <div className="columns">
      <Panel title={<>Where <Name mono>{column}</Name> comes from</>}>
        <Loaded result={up}>
          {(body) => body.links.length ? (
            <div className="table-wrap"><table className="table">
              <thead><tr><th className="num">Steps</th><th>Column</th><th>Becomes</th><th>How</th></tr></thead>
              <tbody>{body.links.map((link, index) => (
                <tr key={index}>
                  <td className="num">{link.distance}</td>
                  <td><AssetLink asset={link.source.asset} />{link.source.column ? <Name mono>{`.${link.source.column}`}</Name> : null}</td>
                  <td className="muted"><Name mono>{`${link.target.asset}.${link.target.column}`}</Name></td>
                  <td className="muted">{link.masked ? "masked " : ""}{link.kind}{link.confidence ? `, ${link.confidence}` : ""}</td>
                </tr>))}</tbody>
            </table>{body.hidden ? <p className="body muted">{count(body.hidden)} more that you may not see</p> : null}</div>
          ) : <Empty title="It comes from no other column" />}
        </Loaded>
      </Panel>
      <Panel title={<>What depends on <Name mono>{column}</Name></>}>
        <Loaded result={down}>
          {(body) => body.impact.length ? (
            <div className="table-wrap"><table className="table">
              <thead><tr><th className="num">Steps</th><th>Column</th><th /></tr></thead>
              <tbody>{body.impact.map((each, index) => (
                <tr key={index}>
                  <td className="num">{each.distance}</td>
                  <td><AssetLink asset={each.asset} />{each.column ? <Name mono>{`.${each.column}`}</Name> : <span className="muted"> selects rows</span>}</td>
                  <td className="muted">{each.masked ? "masked" : ""}</td>
                </tr>))}</tbody>
            </table></div>
          ) : <Empty title="Nothing depends on it" />}
        </Loaded>
      </Panel>
    </div>
    </>
  );
}

function SchemaHistory({ asset }: { asset: string }) {
  const list = useList("/assets/{asset}/schemas", { path: { asset }, pageSize: 20 });
  return (
    <Panel title="Schema history">
      {list.error ? <div className="body"><ProblemNote error={list.error} /></div> : list.isPending ? <Skeleton /> : list.items.length ? (
        <div className="table-wrap"><table className="table">
          <thead><tr><th className="num">Version</th><th>From</th><th>Changes</th><th>Run</th><th className="num">Registered</th></tr></thead>
          <tbody>{list.items.map((version) => (
            <tr key={version.version}>
              <td className="num">{version.version}</td>
              <td>{version.source} {version.current ? <State state="ACTIVE" text="Current" /> : null}</td>
              <td>{version.changes.length ? version.changes.map((change, index) => (
                <div key={index}><Name mono>{change.path || change.column}</Name> <span className="muted">{change.kind.replaceAll("_", " ")} {change.before ? `${change.before} → ${change.after}` : change.after}</span></div>
              )) : <span className="muted">{plural(version.columns.length, "column")}</span>}</td>
              <td>{version.run_id ? <RunLink run={version.run_id} /> : ""}</td>
              <td className="num muted"><Time at={version.registered_at} /></td>
            </tr>))}</tbody>
        </table></div>
      ) : <Empty title="No schema was registered yet" />}
    </Panel>
  );
}
