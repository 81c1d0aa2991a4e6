#include "launcher/spans/memory_looks.h"

#include "common/base/output/log.h"

#include <fmt/format.h>

#include <utility>

namespace xpurun::launcher {

MemoryLooks::MemoryLooks(Parts parts, const std::string& run_dir, std::string host,
                         std::function<double()> elapsed_s)
    : parts_(parts),
      ranks_dir_(run_dir + "/ranks"),
      host_(std::move(host)),
      elapsed_s_(std::move(elapsed_s)),
      patience_(parts.loop) {}

void MemoryLooks::received(base::Pid pid, std::string_view json) {
  const TrackedProcess* p = parts_.table.find(pid);
  if (p == nullptr || p->record.role != model::ProcessRole::rank) {
    return;
  }
  auto look = model::memory_look_from_json(json);
  if (!look) {
    base::log_debug("pid {}: {}", pid, base::to_line(look.error()));
    return;
  }
  look->rank = p->record.rank;
  look->pid = pid;
  keep(*look);
  const auto awaited = awaited_.find(pid);
  if (awaited != awaited_.end() && look->why == model::LookReason::request &&
      look->request == awaited->second) {
    awaited_.erase(awaited);
    answer_.answered.insert(look->rank);
    if (awaited_.empty()) {
      finish();
    }
  }
}

void MemoryLooks::keep(model::MemoryLook look) {
  look.host = host_;
  look.at_s = elapsed_s_();
  const std::string dir = fmt::format("{}/{}", ranks_dir_, look.rank);
  parts_.storage.make_dirs(dir);
  parts_.storage.replace(fmt::format("{}/{}{}.json", dir, model::kMemoryFilePrefix, model::name_of(look.why)),
                         model::memory_look_json(look) + "\n");
  if (consumer_) {
    consumer_(look);
  }
}

base::Status MemoryLooks::ask_all(const LookOrder& order, double patience_s, Done done) {
  if (done_) {
    return base::fail("an earlier request for a look at the memory is not finished");
  }
  answer_ = {};
  for (const TrackedProcess* p : parts_.table.living_ranks()) {
    if (const uint32_t number = parts_.segments.order_look(p->record.pid, order); number > 0) {
      awaited_[p->record.pid] = number;
    } else {
      answer_.unreachable.insert(p->record.rank);
    }
  }
  done_ = std::move(done);
  // Never before the return.
  patience_.after(awaited_.empty() ? 0 : patience_s, [this] { finish(); });
  return {};
}

void MemoryLooks::finish() {
  patience_.stop();
  for (const auto& [pid, number] : std::exchange(awaited_, {})) {
    if (const TrackedProcess* p = parts_.table.find(pid)) {
      answer_.silent.insert(p->record.rank);
    }
  }
  // When the files are on the disk.
  constexpr double kPatienceS = 5;
  parts_.storage.when_written(kPatienceS,
                              [done = std::exchange(done_, {}), answer = answer_](Written) { done(answer); });
}

}  // namespace xpurun::launcher
