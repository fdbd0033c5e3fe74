/** The pages that the side bar and ⌘K offer. A page whose permission is missing is not offered. */
import { Home, type LucideIcon, Play, SquareTerminal, Table2, Waypoints } from "lucide-react";
import type { Permission } from "../api/permissions";
import type { PagePath } from "./link";

export interface NavigationEntry {
  title: string;
  to: PagePath;
  icon: LucideIcon;
  permission: Permission;
  keys: string;
}

/** `keys`: pressed after `g`. */
export const NAVIGATION: { title: string; entries: NavigationEntry[] }[] = [
  {
    title: "",
    entries: [
      { title: "Overview", to: "", icon: Home, permission: "assets.read", keys: "o" },
      { title: "Assets", to: "/assets", icon: Table2, permission: "assets.read", keys: "a" },
      { title: "Lineage", to: "/lineage", icon: Waypoints, permission: "assets.read", keys: "l" },
      { title: "Runs", to: "/runs", icon: Play, permission: "runs.read", keys: "r" },
    ],
  },
  {
    title: "Tools",
    entries: [{ title: "SQL", to: "/sql", icon: SquareTerminal, permission: "query.run", keys: "s" }],
  },
];

