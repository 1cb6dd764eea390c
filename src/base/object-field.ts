/**
 * Values that are kept with objects of others, such as the decision of a request. A private field is added to the object,
 * which is faster than a WeakMap: collecting the garbage of many short-lived keys is expensive. Nothing else sees it.
 */

/** A base class that returns the object it is given, so that a subclass adds its private field to that object. */
const Given = function (this: unknown, object: object): object {
  return object;
} as unknown as new (
  object: object,
) => object;

/** One value per object. */
export interface ObjectField<T> {
  /** `undefined` also for a value that is not an object. */
  get(object: object): T | undefined;
  set(object: object, value: T): void;
}

/** Creates a field. Share it between copies of the package: each copy would have its own. */
export function createObjectField<T>(): ObjectField<T> {
  class Field extends Given {
    #value: T;

    constructor(object: object, value: T) {
      super(object);
      this.#value = value;
    }

    static get(object: object): T | undefined {
      return #value in object ? object.#value : undefined;
    }

    static set(object: object, value: T): void {
      if (#value in object) object.#value = value;
      else new Field(object, value);
    }
  }

  /** Objects that refuse private fields, as a proposal for objects that are not extensible has it. */
  let others: WeakMap<object, T> | undefined;
  return {
    get(object) {
      // Callers pass what an application gave them.
      if ((typeof object !== "object" && typeof object !== "function") || object === null) return undefined;
      return Field.get(object) ?? others?.get(object);
    },
    set(object, value) {
      try {
        Field.set(object, value);
      } catch {
        others ??= new WeakMap();
        others.set(object, value);
      }
    },
  };
}
