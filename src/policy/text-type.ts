/** The type of policies as text. */
import type { RateText } from "../base/rate.ts";

/** A policy as text: a rate, alone or with a word that chooses the algorithm. */
export type PolicyText =
  | RateText
  | `${RateText} ${"burst" | "queue"} ${number}`
  | `${RateText} ${"fixed" | "sliding" | "log"}`;
