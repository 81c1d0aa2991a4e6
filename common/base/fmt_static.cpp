// fmt as a static library for -Dbundle=true: Debian packages none. The header-only form is compiled once here
// with every function kept, so that all other files only compile the declarations.

#include <fmt/format-inl.h>  // IWYU pragma: keep
