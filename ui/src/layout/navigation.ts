/** The pages that the side bar and ⌘K offer. A page whose permission is missing is not offered. */
import { Home, type LucideIcon, Play, Table2 } from "lucide-react";
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
      { title: "Runs", to: "/runs", icon: Play, permission: "runs.read", keys: "r" },
    ],
  },
];

