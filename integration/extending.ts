/** Extensions of the gate for tests. */
import {
  type CapturedResponse,
  EXTENSION,
  type ExtensionPass,
  type GateExtension,
} from "../src/middleware/gate/extension.ts";
import { captureResponse } from "../src/middleware/hosts/capture.ts";

type Enter = GateExtension<readonly unknown[]>["enter"];

/** Options with an extension, for any server. */
export function extending(enter: Enter): object {
  return { [EXTENSION]: { enter } };
}

/** An extension that captures every response, and takes a while to store it. */
export function capturing(set?: ExtensionPass["set"]): { captured: CapturedResponse[]; enter: Enter } {
  const captured: CapturedResponse[] = [];
  const capture = () =>
    captureResponse({
      maxBytes: 1000,
      async complete(response) {
        await new Promise((resolve) => setTimeout(resolve, 5));
        captured.push(response);
      },
    });
  return { captured, enter: () => ({ set, capture: capture() }) };
}
