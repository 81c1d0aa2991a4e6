// A job with a dump coordinator whose dumps end when the test says so.
#pragma once

#include "launcher/dumps/dump_coordinator.h"
#include "launcher/ending/job_state.h"
#include "tests/unit/launcher/fake_dump.h"

#include <fmt/format.h>

#include <memory>

namespace xpurun::test {

struct DumpScene : JobScene {
  launcher::JobState job;
  FakeDump* dump = nullptr;  // the latest
  launcher::DumpCoordinator dumps{
      {loop, storage, journal, table, options},
      {.host = "node-a"},
      {.discover = [] {},
       .observations = [] { return std::vector<model::RankObservation>(); },
       .save_calls = [](const std::string&) { return model::CollectiveFacts(); },
       .release = [this](base::Pid pid) { release(pid); },
       .dumped = [](base::MonoNs, bool) {},
       .may_go_on = [] { return true; },
       .idle = [] {}},
      {.program = []() -> base::Result<std::string> { return std::string("stackdump"); },
       .make =
           [this](launcher::DumpPlan plan, const launcher::DumpJob::HelperStarted&,
                  launcher::DumpJob::Done done) {
             auto out = std::make_unique<FakeDump>(std::move(plan), std::move(done));
             dump = out.get();
             return out;
           }}};

  void release(base::Pid pid) { tell(fmt::format("release {}", pid - kCommand)); }
  // Lets the dump in progress end.
  void end_dump() {
    run_for(0.001);
    REQUIRE(dump != nullptr);
    dump->end();
    run_for(0.001);
  }
};

}  // namespace xpurun::test
