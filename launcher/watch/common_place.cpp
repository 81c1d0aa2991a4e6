#include "launcher/watch/common_place.h"

#include "report/diagnosis/waits/code_place.h"

#include <algorithm>

namespace xpurun::launcher {

bool is_users_file(std::string_view file) {
  return report::owner_of(file) == report::CodeOwner::user;
}

model::CodeLocation place_in_user_code(const std::vector<stackdump::CodeLine>& innermost_first) {
  std::vector<model::Frame> frames;
  for (const stackdump::CodeLine& line : innermost_first) {
    frames.push_back(
        {.kind = model::FrameKind::python, .func = line.function, .file = line.file, .line = line.line});
  }
  return report::place_of(frames);
}

bool in_users_code(const std::vector<stackdump::CodeLine>& innermost_first) {
  const model::CodeLocation where = place_in_user_code(innermost_first);
  return !where.file.empty() && is_users_file(where.file);
}

void CommonPlace::add(const std::vector<stackdump::CodeLine>& innermost_first) {
  if (innermost_first.empty()) {
    return;
  }
  std::vector<stackdump::CodeLine> now(innermost_first.rbegin(), innermost_first.rend());
  if (!any_) {
    any_ = true;
    common_ = std::move(now);
    return;
  }
  size_t same = 0;
  while (same < std::min(common_.size(), now.size()) && common_[same].function == now[same].function &&
         common_[same].file == now[same].file) {
    moved_ |= common_[same].line != now[same].line;
    ++same;
  }
  moved_ |= same < std::max(common_.size(), now.size());
  now.resize(same);
  common_ = std::move(now);
}

model::CodeLocation CommonPlace::place() const {
  const auto user = std::find_if(common_.rbegin(), common_.rend(), [](const stackdump::CodeLine& line) {
    return report::owner_of(line.file) == report::CodeOwner::user;
  });
  return moved_ && user != common_.rend()
             ? model::CodeLocation{.function = user->function, .file = user->file, .line = user->line}
             : model::CodeLocation();
}

}  // namespace xpurun::launcher
