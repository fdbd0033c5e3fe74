/** Characters that would change how the text around them is shown, as their escapes. */
const visible = (text: string): string => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (each) => `\\u{${each.codePointAt(0)!.toString(16)}}`);

/** A value is percent-encoded in a key. */
function decoded(value: string): string {
  try {
    return visible(decodeURIComponent(value));
  } catch {
    return value;
  }
}

/** `date=d:2025-01-04|region=s:eu` as people write it: `date=2025-01-04, region=eu`. */
export function partitionText(key: string): string {
  if (!key) return "";
  return key
    .split(/[|,/](?=[a-z_]\w*=)/i)
    .map((part) => {
      const [, name, value] = /^([^=]+)=[a-z]+:(.*)$/s.exec(part) ?? [];
      return name === undefined ? part : `${name}=${decoded(value!)}`;
    })
    .join(", ");
}

/** The values alone, for places where dimensions are in the heading. */
export const partitionValue = (key: string): string => partitionText(key).replace(/^[^=]+=/, "");
