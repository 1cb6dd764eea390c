/** Tests the default clock: system time that never goes backwards. */
import { afterEach, expect, it, vi } from "vitest";
import { systemClock } from "./clock.ts";

afterEach(() => vi.useRealTimers());

it("continues from its last value when the system clock steps back", () => {
  vi.useFakeTimers({ now: 1_800_000_000_000 });
  const clock = systemClock();
  const start = clock.now();
  vi.setSystemTime(start + 500);
  expect(clock.now()).toBe(start + 500);
  vi.setSystemTime(start - 3_600_000);
  expect(clock.now()).toBe(start + 500);
  vi.setSystemTime(start - 3_600_000 + 250);
  expect(clock.now()).toBe(start + 750);
  vi.setSystemTime(start - 7_200_000);
  expect(clock.now()).toBe(start + 750);
  vi.setSystemTime(start - 7_200_000 + 1);
  expect(clock.now()).toBe(start + 751);
});

it("follows a forward step of the system clock", () => {
  vi.useFakeTimers({ now: 1_800_000_000_000 });
  const clock = systemClock();
  clock.now();
  vi.setSystemTime(1_800_000_000_000 + 86_400_000);
  expect(clock.now()).toBe(1_800_000_000_000 + 86_400_000);
});
