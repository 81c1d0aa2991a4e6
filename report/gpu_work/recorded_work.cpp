#include "report/gpu_work/recorded_work.h"

#include "common/base/strings.h"
#include "common/model/speed/kernel_name.h"
#include "common/model/timing/op_names.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

namespace xpurun::report {

namespace {

using wire::OpClass;
using wire::Source;

// This part of the work may lack GPU times: a few calls at the begin of a program.
constexpr double kFew = 0.01;

std::string name_of(const model::EventFile::Op& op, bool cupti) {
  const model::EventKey& key = op.key;
  std::string function = (key.flags & wire::kOpOther) != 0 ? "other" : base::sanitize(op.function);
  if (cupti) {
    return model::kernel_name(op.function);
  }
  if ((key.flags & wire::kOpOther) != 0) {
    return function;
  }
  switch (static_cast<OpClass>(key.op_class)) {
    case OpClass::matmul:
      return fmt::format("matmul {} {}", shape_text(key), model::cuda_type_name(key.dtype[0]));
    case OpClass::collective:
      return fmt::format("{} {}", model::collective_name(key), base::human_size(op.work));
    case OpClass::memory: {
      const std::string_view direction = model::copy_direction(key);
      return direction.empty() ? function : fmt::format("{} {}", function, direction);
    }
    default:
      return function;
  }
}

class Reader {
 public:
  explicit Reader(const model::EventFile& file) : file_(file) {}

  RecordedWork read() {
    for (const model::EventFile::Entry& entry : file_.events) {
      out_.cupti = out_.cupti || static_cast<Source>(entry.event.source) == Source::cupti;
    }
    if (out_.cupti) {
      find_launches();
    }
    size_t misplaced = 0;
    for (const model::EventFile::Entry& entry : file_.events) {
      const model::TimedEvent& e = entry.event;
      const auto op = file_.ops.find(e.op);
      if (op == file_.ops.end() || !is_possible(e)) {
        continue;
      }
      const auto begin = static_cast<int64_t>(e.begin_ns);
      const auto end = begin + static_cast<int64_t>(e.duration_ns);
      if (static_cast<OpClass>(op->second.key.op_class) == OpClass::host) {
        out_.calls.push_back({begin, end, name(op->first, op->second)});
      } else if (facts_of(file_, op->second, entry).on_gpu &&
                 static_cast<Source>(e.source) != Source::host_call) {
        misplaced += is_in_place(e) ? 0 : 1;
        out_.works.push_back({std::min(launch_of(e), begin), begin, end, name(op->first, op->second)});
      }
    }
    const auto by_begin = [](const auto& a, const auto& b) { return a.begin < b.begin; };
    std::stable_sort(out_.works.begin(), out_.works.end(), by_begin);
    std::stable_sort(out_.calls.begin(), out_.calls.end(), by_begin);
    judge(misplaced);
    return std::move(out_);
  }

 private:
  // CUPTI's correlation number joins a call and its work.
  void find_launches() {
    for (const model::EventFile::Entry& entry : file_.events) {
      const auto op = file_.ops.find(entry.event.op);
      if (op != file_.ops.end() && is_possible(entry.event) &&
          static_cast<OpClass>(op->second.key.op_class) == OpClass::host) {
        launches_.emplace(entry.event.sequence, static_cast<int64_t>(entry.event.begin_ns));
      }
    }
  }

  int64_t launch_of(const model::TimedEvent& e) const {
    const auto begin = static_cast<int64_t>(e.begin_ns);
    if (!out_.cupti) {
      return begin - int64_t{e.delay_us} * 1'000;
    }
    const auto found = launches_.find(e.sequence);
    return found == launches_.end() ? begin : found->second;
  }

  uint32_t name(uint32_t number, const model::EventFile::Op& op) {
    const auto [at, is_new] = names_.emplace(number, static_cast<uint32_t>(out_.names.size()));
    if (is_new) {
      out_.names.push_back(name_of(op, out_.cupti));
    }
    return at->second;
  }

  void judge(size_t misplaced) {
    const auto all = static_cast<double>(out_.works.size());
    if (out_.works.size() < 2) {
      out_.problem = "no work of the GPU was recorded";
    } else if (static_cast<double>(misplaced) > kFew * all) {
      out_.problem = "the times of some calls are not those of the GPU";
    } else if (static_cast<double>(file_.lost) > kFew * all) {
      out_.problem = fmt::format("{} calls found no room", file_.lost);
    }
  }

  const model::EventFile& file_;
  RecordedWork out_;
  std::unordered_map<uint32_t, int64_t> launches_;
  std::map<uint32_t, uint32_t> names_;  // by operation
};

}  // namespace

int64_t uncertain_end_ns(int64_t length_ns) {
  constexpr int64_t kMostNs = 50'000'000;
  constexpr int64_t kPart = 20;
  return std::min(length_ns / kPart, kMostNs);
}

RecordedWork recorded_work(const model::EventFile& file) {
  return Reader(file).read();
}

}  // namespace xpurun::report
