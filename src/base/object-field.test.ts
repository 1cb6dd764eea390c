import { expect, it } from "vitest";
import { createObjectField } from "./object-field.ts";

it.each([
  ["a plain object", {}],
  ["a frozen object", Object.freeze({})],
  ["a sealed object", Object.seal({})],
  ["an object that is not extensible", Object.preventExtensions({ a: 1 })],
  ["a proxy", new Proxy({}, {})],
  [
    "a proxy that refuses everything",
    new Proxy({}, { defineProperty: () => false, set: () => false, has: () => false }),
  ],
  ["a function", () => {}],
  ["a request", new Request("http://localhost/")],
])("keeps a value with %s, and changes nothing that others see", (_, object) => {
  const field = createObjectField<string>();
  const before = Reflect.ownKeys(object);
  expect(field.get(object)).toBeUndefined();
  field.set(object, "first");
  expect(field.get(object)).toBe("first");
  field.set(object, "second");
  expect(field.get(object)).toBe("second");
  expect(Reflect.ownKeys(object)).toEqual(before);
});

it.each([undefined, null, 1, "text", Symbol("s")])("has no value for %s", (value) => {
  expect(createObjectField<string>().get(value as never)).toBeUndefined();
});

it("keeps the values of two fields, and of two objects, apart", () => {
  const [a, b] = [createObjectField<number>(), createObjectField<number>()];
  const [x, y] = [{}, {}];
  a.set(x, 1);
  b.set(x, 2);
  a.set(y, 3);
  expect([a.get(x), b.get(x), a.get(y), b.get(y)]).toEqual([1, 2, 3, undefined]);
});

it("keeps the value of a proxy apart from that of its target", () => {
  const field = createObjectField<string>();
  const target = {};
  const proxy = new Proxy(target, {});
  field.set(proxy, "proxy");
  expect(field.get(target)).toBeUndefined();
});
