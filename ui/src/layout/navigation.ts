/** The pages that the side bar and ⌘K offer. A page whose permission is missing is not offered. */
import { Bot, Coins, FileCheck2, Home, Layers, type LucideIcon, Play, ScrollText, Settings, ShieldAlert, SquareTerminal, Table2, Waypoints } from "lucide-react";
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
    title: "Operate",
    entries: [
      { title: "Backfills", to: "/backfills", icon: Layers, permission: "runs.read", keys: "b" },
      { title: "Automation", to: "/automation", icon: Bot, permission: "runs.read", keys: "u" },
      { title: "Quarantine", to: "/quarantine", icon: ShieldAlert, permission: "assets.read", keys: "q" },
    ],
  },
  {
    title: "Govern",
    entries: [
      { title: "Contracts", to: "/contracts", icon: FileCheck2, permission: "assets.read", keys: "c" },
      { title: "Costs", to: "/costs", icon: Coins, permission: "runs.read", keys: "$" },
      { title: "Audit", to: "/audit", icon: ScrollText, permission: "audit.read", keys: "d" },
      { title: "Settings", to: "/settings", icon: Settings, permission: "runs.read", keys: "," },
    ],
  },
  {
    title: "Tools",
    entries: [{ title: "SQL", to: "/sql", icon: SquareTerminal, permission: "query.run", keys: "s" }],
  },
];

