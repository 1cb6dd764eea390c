-- The rules of charge modes; mirrors modes.ts. `inspect` exists only here.
--   asks            whether the charge denies its group if its cost does not fit
--   apply           applied if the group is admitted
--   applyIfDenied   applied if the group is denied by another charge
local MODES = {
  take = { asks = true, apply = 'add' },
  peek = { asks = true },
  refund = { apply = 'subtract' },
  reset = { apply = 'clear' },
  hold = { asks = true, apply = 'hold' },
  settle = { apply = 'settle' },
  penalty = { asks = true, applyIfDenied = 'add' },
  inspect = {},
}
