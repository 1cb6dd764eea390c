/** How abuse prevention reports problems: to `onEvent` of the middleware, else as a process warning, once. */
import type { SluiceError } from "../base/errors.ts";

/** Reports problems of one middleware. */
export interface AbuseReports {
  /** A list could not be loaded. The old one stays in use; without one, the list is empty. */
  listStale(list: string, error: SluiceError): void;
  /** A list was loaded. */
  listRefreshed(list: string): void;
  /** The provider of challenges could not verify a solution. */
  providerDown(provider: string, error: SluiceError): void;
}
