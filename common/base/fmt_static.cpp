// fmt as a static library for -Dbundle=true, because Debian packages none. The header-only form is compiled
// once here with every function kept; all other files compile only the declarations.

#include <fmt/format-inl.h>  // IWYU pragma: keep
