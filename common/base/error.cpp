#include "common/base/result.h"
#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace xpurun::base {

namespace {

// The C library's text of an errno. The usual texts are listed so that the catalogue has translations of
// them.
std::string error_name(int number) {
  [[maybe_unused]] static constexpr std::string_view kUsual[] = {later("No such file or directory"),
                                                                 later("Permission denied"),
                                                                 later("Operation not permitted"),
                                                                 later("Not a directory"),
                                                                 later("Is a directory"),
                                                                 later("File exists"),
                                                                 later("No space left on device"),
                                                                 later("Read-only file system"),
                                                                 later("Connection refused"),
                                                                 later("No such process"),
                                                                 later("Too many open files"),
                                                                 later("File name too long"),
                                                                 later("Inappropriate ioctl for device"),
                                                                 later("Invalid argument"),
                                                                 later("Input/output error"),
                                                                 later("Address already in use")};
  char buf[128];
  // GNU's strerror_r() may return a static string and leave the buffer unused.
  return strerror_r(number, buf, sizeof buf);
}

std::string to_line(const Error& e, const std::string& reason) {
  return fmt::format("{}: {}", e.what, reason);
}

}  // namespace

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
  return e.sys_errno == 0 ? e.what : to_line(e, error_name(e.sys_errno));
}

std::string to_text(const Error& e) {
  const std::string what =
      sanitize(e.sys_errno == 0 ? e.what : to_line(e, cli_text(error_name(e.sys_errno))));
  std::string out =
      e.id.empty() ? cli_text("xpurun: error: {}", what) : cli_text("xpurun: error: {} [{}]", what, e.id);
  out += '\n';
  if (!e.cause.empty()) {
    out += fmt::format("  {}\n", sanitize(e.cause));
  }
  if (!e.hint.empty()) {
    out += cli_text("  try:  {}", sanitize(e.hint)) + '\n';
  }
  return out;
}

}  // namespace xpurun::base
