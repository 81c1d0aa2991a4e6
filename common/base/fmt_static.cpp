// fmt for programs that may not need libfmt.so (-Dbundle=true), where no static one is packaged: its
// header-only form, compiled once with every function kept, so that all other files pay for the declarations
// only.

#include <fmt/format-inl.h>  // IWYU pragma: keep
