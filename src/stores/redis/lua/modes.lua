-- What each mode of a charge does; mirrors modes.ts. `inspect` exists only here.
--   asks            whether the charge denies its group if its cost does not fit
--   apply           what it does if its group is admitted
--   applyIfDenied   what it does if its group is denied by another charge
local MODES = {
  take = { asks = true, apply = 'add' },
  peek = { asks = true },
  refund = { apply = 'subtract' },
  reset = { apply = 'clear' },
  penalty = { asks = true, applyIfDenied = 'add' },
  inspect = {},
}
