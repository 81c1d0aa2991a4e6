#include "report/tree/stack_classes.h"

#include "common/model/frame_text.h"
#include "report/tree/roles.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

namespace {

bool is_c_library(const model::Frame& f) {
  return f.module.starts_with("libc.so") || f.module.starts_with("libc-") ||
         f.module.starts_with("libpthread") || f.module.starts_with("ld-linux") || f.module == "[vdso]";
}

// The offset in "libfoo.so+0x12" differs from rank to rank.
std::string without_offset(const std::string& func) {
  const size_t plus = func.find("+0x");
  return plus == std::string::npos ? func : func.substr(0, plus);
}

std::vector<model::Frame> merged_frames(const model::ThreadStack& t) {
  std::vector<model::Frame> out;
  std::copy_if(t.frames.begin(), t.frames.end(), std::back_inserter(out),
               [](const model::Frame& f) { return !f.eval; });
  return out;
}

}  // namespace

std::string class_key(const model::ThreadStack& t) {
  std::string key;
  bool below_python = true;
  for (const model::Frame& f : t.frames) {
    if (f.kind == model::FrameKind::python) {
      below_python = false;
      key += fmt::format("p{}\x1f{}\x1f{}\n", f.func, f.file, f.line);
    } else if (below_python && !f.eval && f.kind != model::FrameKind::kernel && !is_c_library(f)) {
      key += fmt::format("n{}\n", without_offset(f.func));
    }
  }
  return key;
}

void ClassBuilder::add(const model::ProcessStacks& p) {
  if (process_role(p) != model::ProcessRole::rank || p.rank == base::kNoRank) {
    return;
  }
  const model::ThreadStack* main = p.main_thread();
  const bool has_frames = main != nullptr && !main->frames.empty();
  const std::string missing =
      has_frames ? "" : (p.reason.empty() ? "no frames of the main thread" : p.reason);
  StackClass& c = by_key_[has_frames ? class_key(*main) : "missing " + missing];
  c.ranks.insert(p.rank);
  c.missing = missing;
  if (main != nullptr) {
    c.states.add(main->state, main->gil, 1);
  }
  if (c.representative == base::kNoRank || p.rank < c.representative) {
    c.representative = p.rank;
    c.host = p.host;
    c.pid = p.pid;
    c.frames = has_frames ? merged_frames(*main) : std::vector<model::Frame>();
  }
}

std::vector<StackClass> ClassBuilder::classes() const {
  std::vector<StackClass> out;
  for (const auto& [key, c] : by_key_) {
    out.push_back(c);
  }
  std::sort(out.begin(), out.end(), [](const StackClass& a, const StackClass& b) {
    return std::pair(a.ranks.size(), a.ranks.lowest()) < std::pair(b.ranks.size(), b.ranks.lowest());
  });
  return out;
}

std::vector<size_t> shown_frames(const std::vector<model::Frame>& frames, size_t at_most) {
  std::vector<size_t> chosen;
  const auto take = [&](auto&& wanted) {
    for (size_t i = 0; i < frames.size() && chosen.size() < at_most; ++i) {
      if (wanted(frames[i]) && std::find(chosen.begin(), chosen.end(), i) == chosen.end()) {
        chosen.push_back(i);
      }
    }
  };
  const auto is_python = [](const model::Frame& f) { return f.kind == model::FrameKind::python; };
  const auto innermost = std::find_if(frames.begin(), frames.end(), is_python);
  if (innermost != frames.end() && at_most > 0) {
    chosen.push_back(static_cast<size_t>(innermost - frames.begin()));
  }
  take(is_user_code);
  take(is_python);
  take([](const model::Frame&) { return true; });
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace xpurun::report
