#include "report/tree/roles.h"

#include "common/base/strings.h"

namespace xpurun::report {

std::string process_role(const model::ProcessStacks& p) {
  return p.role == "rank" || p.role == "worker" || p.role == "agent" ? p.role : "other";
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
  return name.empty() ? "unnamed" : base::sanitize(fold_digits(name));
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

}  // namespace xpurun::report
