import { reportAs } from "../../report.ts";

export const GET = reportAs("health");
