/** Helpers for tests of invalid policies. */
import { type Policy, SluiceError } from "sluice";
import { compilePolicy } from "sluice/algorithms";
import { expect } from "vitest";

/** The error of `compilePolicy` for an invalid policy. */
export function rejectionOf(policy: unknown): SluiceError {
  return asSluiceError(thrownBy(() => compilePolicy(policy as Policy)));
}

/** The thrown error, or undefined. */
export function thrownBy(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  return undefined;
}

export function asSluiceError(error: unknown): SluiceError {
  expect(error).toBeInstanceOf(SluiceError);
  return error as SluiceError;
}
