import { reportAs } from "../../../../report.js";

export const dynamic = "force-dynamic";
export const GET = reportAs("file");
