#include "launcher/journal/journal.h"

#include "common/base/os/io.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace xpurun;

namespace {

struct JournalScene : test::JobScene {
  std::string recorded() const {
    const auto text = base::read_file("run/run.json", 1 << 20);
    return text ? *text : "";
  }
  bool has_line(int line) const {
    return recorded().find(fmt::format("\"line\": {}", line)) != std::string::npos;
  }
  // As the watcher does at each poll.
  void rank_is_at(int line) {
    auto records = table.records();
    records.front().line = line;
    journal.processes_polled(std::move(records), table.world_size());
  }
};

}  // namespace

TEST_CASE("journal: positions reach run.json within ten seconds, without any other event") {
  JournalScene s;
  s.journal.save_now();
  s.run_for(1);
  s.rank_is_at(4711);
  s.run_for(1);
  CHECK_FALSE(s.has_line(4711));
  s.run_for(launcher::Journal::kRefreshS);
  s.rank_is_at(4711);
  s.run_for(1);
  CHECK(s.has_line(4711));
  s.rank_is_at(4712);
  s.run_for(1);
  CHECK_FALSE(s.has_line(4712));
}
