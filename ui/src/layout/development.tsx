/** Under `servo dev`: why the last save could not be deployed, on every page. */
import { useQuery } from "@tanstack/react-query";
import type { Problem } from "../api/client";
import { type DevelopmentState, readDevelopment } from "../api/client";
import { Name } from "../design/values";

const MOST = 5;

export function DevelopmentNote({ path }: { path: string }) {
  const { data } = useQuery<DevelopmentState, Problem>({
    queryKey: ["development", path],
    queryFn: () => readDevelopment(path),
    refetchInterval: (query) => (query.state.error?.status === 404 ? false : 2_000),
    retry: false,
  });
  if (data?.state !== "BROKEN") return null;
  const problems = data.problems.slice(0, MOST);
  return (
    <div className="notice broken-save" role="alert">
      <strong>
        The last save could not be deployed.{" "}
        {data.deployment === null ? "Nothing is deployed yet." : `Runs go on with deployment ${data.deployment}.`}
      </strong>
      {problems.length ? (
        <ul>
          {problems.map((each) => (
            <li key={`${each.file}:${each.line}:${each.message}`}>
              <code>
                <Name>{`${each.file}:${each.line}`}</Name>
              </code>{" "}
              <Name>{each.message}</Name>
              {each.hint ? <small><Name>{each.hint}</Name></small> : null}
            </li>
          ))}
          {data.problems.length > MOST ? <li>and {data.problems.length - MOST} more: <code>servo dev</code> prints all</li> : null}
        </ul>
      ) : (
        <p>
          <Name>{data.message}</Name>
          {data.hint ? <small><Name>{data.hint}</Name></small> : null}
        </p>
      )}
    </div>
  );
}
