#include "report/tree/roles.h"

#include "common/base/strings.h"

#include <algorithm>
#include <iterator>

namespace xpurun::report {

model::ProcessRole process_role(const model::ProcessStacks& p) {
  return model::takes_part(p.role) ? p.role : model::ProcessRole::other;
}

std::string fold_digits(std::string_view text) {
  std::string out;
  bool in_number = false;
  for (char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) {
      out += c;
    } else if (!in_number) {
      out += '#';
    }
    in_number = digit;
  }
  return out;
}

std::string thread_role(const model::ThreadStack& t) {
  if (t.main) {
    return "main";
  }
  const std::string& name = t.python_name.empty() ? t.comm : t.python_name;
  // The digits of "python3.11" are a version, not the number of a thread.
  if (name.starts_with("python") && name.find_first_not_of("0123456789.", 6) == std::string::npos) {
    return "python";
  }
  return name.empty() ? "unnamed" : base::sanitize(fold_digits(name));
}

FrameGroup frame_group(const model::Frame& f) {
  switch (f.kind) {
    case model::FrameKind::python:
      return f.file.starts_with("<frozen ") || base::base_name(f.file) == "runpy.py" ? FrameGroup::interpreter
             : is_user_code(f)                                                       ? FrameGroup::user
                                                                                     : FrameGroup::library;
    case model::FrameKind::native: {
      static constexpr std::string_view kStarters[] = {
          "_start", "__libc_start_main", "__libc_start_call_main",       "start_thread", "clone", "__clone",
          "clone3", "__clone3",          "execute_native_thread_routine"};
      const bool interpreter =
          f.eval || f.module.starts_with("python3") || f.module.starts_with("libpython") ||
          std::find(std::begin(kStarters), std::end(kStarters), f.func) != std::end(kStarters);
      return interpreter ? FrameGroup::interpreter : FrameGroup::library;
    }
    case model::FrameKind::kernel:
    case model::FrameKind::gpu:
      return FrameGroup::library;
    case model::FrameKind::marker:
      break;
  }
  return FrameGroup::user;
}

bool is_user_code(const model::Frame& f) {
  if (f.kind != model::FrameKind::python || f.file.empty() || f.file.front() == '<') {
    return false;
  }
  for (const char* part : {"/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python"}) {
    if (f.file.find(part) != std::string::npos) {
      return false;
    }
  }
  return true;
}

std::string path_below_packages(std::string_view file) {
  for (const std::string_view part : {"/site-packages/", "/dist-packages/"}) {
    if (const size_t at = file.rfind(part); at != std::string_view::npos) {
      return std::string(file.substr(at + part.size()));
    }
  }
  const size_t lib = file.rfind("/lib/python3");
  const size_t slash = lib == std::string_view::npos ? lib : file.find('/', lib + 5);
  return std::string(slash != std::string_view::npos ? file.substr(slash + 1) : base::base_name(file));
}

}  // namespace xpurun::report
