#include "report/formats/motion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::report {

namespace {

bool same_frame(const model::Frame& a, const model::Frame& b) {
  return a.kind == b.kind && a.line == b.line && a.column == b.column && a.pc == b.pc && a.func == b.func &&
         a.file == b.file;
}

bool same_stack(const model::ThreadStack& a, const model::ThreadStack& b) {
  return std::equal(a.frames.begin(), a.frames.end(), b.frames.begin(), b.frames.end(), same_frame);
}

const model::ThreadStack* find_thread(const model::ProcessStacks& p, base::Tid tid) {
  for (const model::ThreadStack& t : p.threads) {
    if (t.tid == tid) {
      return &t;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<model::ProcessStacks> with_motion(std::vector<std::vector<model::ProcessStacks>> samples) {
  // Keyed by process, in order of the first sample that contains it.
  std::map<base::Pid, std::vector<model::ProcessStacks*>> history;
  std::vector<base::Pid> order;
  for (auto& sample : samples) {
    for (model::ProcessStacks& p : sample) {
      auto& entries = history[p.pid];
      if (entries.empty()) {
        order.push_back(p.pid);
      }
      entries.push_back(&p);
    }
  }
  std::vector<model::ProcessStacks> out;
  for (base::Pid pid : order) {
    auto& entries = history[pid];
    const size_t taken = entries.size();
    const auto complete = [](const model::ProcessStacks* p) { return p->status == model::DumpStatus::ok; };
    if (std::any_of(entries.begin(), entries.end(), complete)) {
      std::erase_if(entries, [&](const model::ProcessStacks* p) { return !complete(p); });
    }
    const size_t left_out = taken - entries.size();
    model::ProcessStacks last = std::move(*entries.back());
    entries.pop_back();
    if (left_out > 0) {
      last.notes.push_back(
          fmt::format("{} of {} samples are incomplete and were not compared", left_out, taken));
    }
    if (entries.empty()) {
      out.push_back(std::move(last));
      continue;
    }
    for (model::ThreadStack& t : last.threads) {
      const bool stuck =
          std::all_of(entries.begin(), entries.end(), [&](const model::ProcessStacks* earlier) {
            const model::ThreadStack* before = find_thread(*earlier, t.tid);
            return before != nullptr && same_stack(*before, t);
          });
      t.motion = stuck ? model::Motion::stuck : model::Motion::moving;
    }
    out.push_back(std::move(last));
  }
  return out;
}

}  // namespace xpurun::report
