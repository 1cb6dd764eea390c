/** Makes unit tests, which share a process, start like those of a new one: warnings that are emitted once are due again. */
import { beforeAll } from "vitest";
import { forgetWarnings } from "../src/base/warnings.ts";

beforeAll(forgetWarnings);
