/** `date=d:2025-01-04|region=s:eu` as people write it: `date=2025-01-04, region=eu`. */
export function partitionText(key: string): string {
  if (!key) return "";
  return key
    .split(/[|,/](?=[a-z_]\w*=)/i)
    .map((part) => part.replace(/^([^=]+)=[a-z]+:/, "$1="))
    .join(", ");
}

/** The values alone, for places where dimensions are in the heading. */
export const partitionValue = (key: string): string => partitionText(key).replace(/^[^=]+=/, "");
