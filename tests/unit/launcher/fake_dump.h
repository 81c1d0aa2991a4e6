// Takes no stacks; the test decides when the dump ends.
#pragma once

#include "launcher/stacks/dump_job.h"
#include "tests/unit/launcher/job_scene.h"

namespace xpurun::test {

struct FakeDump final : launcher::StackDump {
  FakeDump(launcher::DumpPlan wanted, launcher::DumpJob::Done then)
      : plan(std::move(wanted)), done(std::move(then)) {}
  void start() override { started = true; }
  void give_up(const std::string&) override { end(); }
  bool helper_ended(base::Pid pid, base::WaitStatus) override { return pid == 77; }
  void end() { done({.processes = {{.pid = kRank0}, {.pid = kRank1}}, .spread_ns = 5}); }

  launcher::DumpPlan plan;
  launcher::DumpJob::Done done;
  bool started = false;
};

}  // namespace xpurun::test
