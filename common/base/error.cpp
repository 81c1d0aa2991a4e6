#include "common/base/result.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace xpurun::base {

Error Error::context(std::string_view doing) && {
  what = fmt::format("{}: {}", doing, what);
  return std::move(*this);
}

tl::unexpected<Error> fail(std::string what) {
  return tl::unexpected<Error>(Error{.what = std::move(what)});
}

tl::unexpected<Error> fail_errno(std::string what) {
  return fail_errno(std::move(what), errno);
}

tl::unexpected<Error> fail_errno(std::string what, int err) {
  return tl::unexpected<Error>(Error{.what = std::move(what), .sys_errno = err});
}

std::string to_line(const Error& e) {
  if (e.sys_errno == 0) {
    return e.what;
  }
  char buf[128];
  return fmt::format("{}: {}", e.what, strerror_r(e.sys_errno, buf, sizeof buf));
}

std::string to_text(const Error& e) {
  std::string out = fmt::format("xpurun: error: {}", sanitize(to_line(e)));
  if (!e.id.empty()) {
    out += fmt::format(" [{}]", e.id);
  }
  out += '\n';
  if (!e.cause.empty()) {
    out += fmt::format("  {}\n", sanitize(e.cause));
  }
  if (!e.hint.empty()) {
    out += fmt::format("  try:  {}\n", sanitize(e.hint));
  }
  return out;
}

}  // namespace xpurun::base
