import { reportAs } from "./report.ts";

export const loader = reportAs("v1");
