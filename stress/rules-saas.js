/** Runs the driver of the SaaS example: 50 endpoints x 3 plans x 10 tenants, each against a calculation of its own. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const driver = fileURLToPath(new URL("../examples/saas/drive.js", import.meta.url));

/** Prints the summary of the driver. */
export async function* rulesSaas() {
  const child = spawn(process.execPath, [driver], { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk) => {
    output += chunk;
  });
  const status = await new Promise((resolve) => void child.once("exit", resolve));
  const wrong = output.split("\n").filter((line) => line.includes("WRONG"));
  const summary = output.trim().split("\n").slice(-4).join("; ").replace(/\s+/g, " ");
  const failures = status === 0 ? wrong : [...wrong, `exit ${status}`];
  yield { claim: "saas rules admit what they say", details: summary, failures };
}
