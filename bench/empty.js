/** Nothing: what an import costs before anything is in it. */
