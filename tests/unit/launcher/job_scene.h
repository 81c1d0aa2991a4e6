// A job with two ranks for tests of the supervisor's parts: simulated clock, fake /proc, run directory in the
// current directory.
#pragma once

#include "launcher/journal/journal.h"
#include "launcher/options/run_settings.h"
#include "launcher/processes/process_table.h"
#include "launcher/storage/direct_storage.h"
#include "tests/unit/launcher/fake_proc.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

namespace xpurun::test {

inline constexpr base::MonoNs kStart = 1'000'000'000'000;
inline constexpr base::Pid kRank0 = kCommand + 1;
inline constexpr base::Pid kRank1 = kCommand + 2;

struct JobScene {
  launcher::EventLoop loop = std::move(*launcher::EventLoop::create_simulated(kStart));
  launcher::DirectStorage storage{&loop};
  launcher::RunOptions options = launcher::default_run_options();
  FakeProc fake;
  launcher::Journal journal{loop, storage, model::RunDir("run"), kStart};
  launcher::ProcessTable table{kSupervisor, kStart, fake.proc()};
  std::vector<std::string> events;  // reported by the part under test

  // Without ranks: a launcher that has not started them yet.
  explicit JobScene(bool with_ranks = true) {
    REQUIRE(base::make_dirs("run"));
    options.hang_timeout_s = 10;
    table.set_main(kCommand);
    fake.add(kCommand, kSupervisor, "sh");
    if (with_ranks) {
      fake.add(kRank0, kCommand, "python3", "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2");
      fake.add(kRank1, kCommand, "python3", "RANK=1 LOCAL_RANK=1 WORLD_SIZE=2");
    }
    table.refresh();
  }

  // Runs the loop for this time by its own clock.
  void run_for(double seconds) {
    loop.after(seconds, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
  double now_s() const { return base::ns_to_s(loop.now() - kStart); }

  void tell(const std::string& event) { events.push_back(event); }
  std::function<void()> teller(const std::string& event) {
    return [this, event] { tell(event); };
  }
  std::vector<std::string> told() { return std::exchange(events, {}); }
};

using Told = std::vector<std::string>;

}  // namespace xpurun::test
