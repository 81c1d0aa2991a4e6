// Result<T>: how functions report failure across room borders. An Error names the failed action, carries
// errno if there is one and an id that xpurun-errors(7) explains, and has a hint only if the way out is
// known. Exceptions stay inside the wrapper of the library that throws them.
#pragma once

#include <tl/expected.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace xpurun::base {

struct Error {
  std::string what;   // sentence fragment that names the object: "cannot open /x/y"
  int sys_errno = 0;  // errno of the failed call, 0 if none
  std::string id;     // stable id such as "E-PTRACE-YAMA"; empty for errors without an entry in the manual
  std::string cause;  // the one cause that applies on this host; may be empty
  std::string hint;   // one command or change to try; may be empty

  // Prepends the caller's action: "reading rank 3: cannot open ...".
  Error context(std::string_view doing) &&;
};

template <typename T>
using Result = tl::expected<T, Error>;

using Status = Result<void>;

// Builds the error value for `return fail(...)`.
tl::unexpected<Error> fail(std::string what);
// fail() for a failed system call; uses the current errno unless one is given.
tl::unexpected<Error> fail_errno(std::string what);
tl::unexpected<Error> fail_errno(std::string what, int err);
inline tl::unexpected<Error> fail(Error e) {
  return tl::unexpected<Error>(std::move(e));
}

// "what: strerror" on one line, without cause and hint.
std::string to_line(const Error& e);
// The form printed for people:
//   xpurun: error: <what: strerror> [E-ID]
//     <cause>
//     try:  <hint>
std::string to_text(const Error& e);

}  // namespace xpurun::base

#define XPURUN_CONCAT_(a, b) a##b
#define XPURUN_CONCAT(a, b) XPURUN_CONCAT_(a, b)

// Returns the error of a failed Status or Result from the enclosing function.
#define XPURUN_TRY(expr)                                     \
  do {                                                       \
    auto xpurun_try_ = (expr);                               \
    if (!xpurun_try_) {                                      \
      return tl::unexpected(std::move(xpurun_try_).error()); \
    }                                                        \
  } while (false)

// XPURUN_TRY_ASSIGN(auto fd, open_file(path));
#define XPURUN_TRY_ASSIGN(decl, expr) XPURUN_TRY_ASSIGN_(XPURUN_CONCAT(xpurun_result_, __LINE__), decl, expr)
#define XPURUN_TRY_ASSIGN_(tmp, decl, expr)        \
  auto tmp = (expr);                               \
  if (!tmp) {                                      \
    return tl::unexpected(std::move(tmp).error()); \
  }                                                \
  decl = std::move(*tmp)
