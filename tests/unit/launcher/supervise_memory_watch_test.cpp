// What a growth of the ranks' memory causes: run.json, and once a line and an event.
#include "launcher/supervise/handlers/memory_watch.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <optional>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr int64_t kGrowMiB = int64_t{1} << 20;

struct MemoryScene : test::JobScene {
  std::vector<std::string> lines;
  model::RankSet ranks;
  std::optional<MemoryRoom> room = MemoryRoom{
      .group = "/sys/fs/cgroup/job", .limit_bytes = 16 * 1024 * kGrowMiB, .used_bytes = 8 * 1024 * kGrowMiB};
  MemoryWatch watch{
      {table, journal, options},
      {.steps = [this](base::Rank) { return static_cast<uint64_t>(now_s() * 10); },
       .room = [this] { return room; },
       .grows =
           [this](const std::string& sentence, const model::RankSet& which) {
             tell(sentence);
             ranks = which;
           },
       .say = [this](const std::string& line) { lines.push_back(line); },
       .examine = [this](base::Pid pid, bool on_host) { examined.emplace_back(pid, on_host); }}};
  std::vector<std::pair<base::Pid, bool>> examined;

  // Rank 1 grows by 8 MiB a second.
  void run(int seconds, int64_t leak_mib = 8) {
    for (int i = 0; i < seconds; ++i) {
      run_for(1);
      const int64_t grown = leak_mib * static_cast<int64_t>(now_s());
      watch.add(test::kRank0, {.at_ns = loop.now(), .private_bytes = 1024 * kGrowMiB});
      watch.add(test::kRank1, {.at_ns = loop.now(), .private_bytes = (1024 + grown) * kGrowMiB});
    }
  }

  // Of PyTorch's allocator on the rank's GPU of 80 GiB.
  void run_on_gpu(int seconds, int64_t leak_mib) {
    for (int i = 0; i < seconds; ++i) {
      run_for(1);
      const int64_t allocated = 40 * 1024 + leak_mib * static_cast<int64_t>(now_s());
      watch.add(test::kRank0, {.at_ns = loop.now(), .gpu = gpu(40 * 1024)});
      watch.add(test::kRank1, {.at_ns = loop.now(), .gpu = gpu(allocated)});
    }
  }
  static model::GpuMemory gpu(int64_t allocated_mib) {
    return {.allocated_bytes = allocated_mib * kGrowMiB,
            .reserved_bytes = 70 * 1024 * kGrowMiB,
            .peak_bytes = (allocated_mib + 20 * 1024) * kGrowMiB,
            .total_bytes = 80 * 1024 * kGrowMiB};
  }
};

}  // namespace

TEST_CASE("memory watch: GPU memory that grows is recorded, and said once before the GPU is full") {
  MemoryScene s;
  s.room.reset();
  s.run_on_gpu(120, 40);
  const model::GpuMemoryUse& kept = s.table.find(test::kRank1)->record.gpu_memory;
  CHECK(kept.total_bytes == 80 * 1024 * kGrowMiB);
  CHECK(kept.growth.to_bytes > kept.growth.from_bytes);
  CHECK(s.table.find(test::kRank0)->record.gpu_memory.growth.empty());
  CHECK(s.table.find(test::kRank1)->record.growth.empty());
  CHECK(s.ranks == model::RankSet{1});
  REQUIRE(s.lines.size() == 1);
  CHECK(s.lines[0].starts_with("the GPU memory of rank 1 grows by 4.0 MiB a step"));
  CHECK(s.lines[0].find("at this rate the 80.0 GiB of the GPU are used up in at most ") != std::string::npos);
}

TEST_CASE("memory watch: GPU memory that stays is no growth") {
  MemoryScene s;
  s.run_on_gpu(120, 0);
  CHECK(s.lines.empty());
  CHECK(s.table.find(test::kRank1)->record.gpu_memory.growth.empty());
  CHECK_FALSE(s.table.find(test::kRank1)->record.gpu_memory.empty());
}

TEST_CASE("memory watch: the growth of one rank is recorded and said once") {
  MemoryScene s;
  s.run(120);
  CHECK(s.table.find(test::kRank0)->record.growth.empty());
  const model::MemoryGrowth& growth = s.table.find(test::kRank1)->record.growth;
  CHECK_FALSE(growth.empty());
  CHECK(growth.until_step > growth.since_step);
  CHECK(s.ranks == model::RankSet{1});
  REQUIRE(s.told().size() == 1);
  REQUIRE(s.lines.size() == 1);
  CHECK(s.lines[0].starts_with("the memory of rank 1 grows by "));
  CHECK(s.lines[0].find("819 KiB a step") != std::string::npos);
  CHECK(s.lines[0].find("the limit of 16.0 GiB of /sys/fs/cgroup/job is reached in 1") != std::string::npos);
}

TEST_CASE("memory watch: a rank whose memory grows is asked who holds it, every ten minutes at most") {
  MemoryScene s;
  s.run(120);
  CHECK(s.examined == std::vector<std::pair<base::Pid, bool>>{{test::kRank1, true}});
  s.run(400);
  CHECK(s.examined.size() == 1);
  s.run(300);
  CHECK(s.examined.size() == 2);
  MemoryScene gpu;
  gpu.run_on_gpu(120, 40);
  CHECK(gpu.examined == std::vector<std::pair<base::Pid, bool>>{{test::kRank1, false}});
}

TEST_CASE("memory watch: after the warning, what grows is said once") {
  MemoryScene s;
  model::MemoryLook look{.rank = 1, .why = model::LookReason::growth, .steps = 8};
  look.holders = {{.device = "cpu",
                   .name = "list losses of train() (train.py:55)",
                   .bytes = 80 * kGrowMiB,
                   .count = 80,
                   .grown = 16 * kGrowMiB}};
  s.watch.looked(look);
  CHECK(s.lines.empty());
  s.run(120);
  REQUIRE(s.lines.size() == 1);
  s.watch.looked(look);
  s.watch.looked(look);
  REQUIRE(s.lines.size() == 2);
  CHECK(s.lines[1] == "rank 1: 2.0 MiB a step in list losses of train() (train.py:55)");
}

TEST_CASE("memory watch: a limit that is far away, or unknown, is not said") {
  MemoryScene s;
  s.room->used_bytes = 0;
  s.room->limit_bytes *= 100;
  s.run(120);
  s.room.reset();
  s.run(60);
  CHECK(s.lines.empty());
  CHECK_FALSE(s.table.find(test::kRank1)->record.growth.empty());
}

TEST_CASE("memory watch: memory that stays is no growth") {
  MemoryScene s;
  s.run(120, 0);
  CHECK(s.table.find(test::kRank1)->record.growth.empty());
  CHECK(s.lines.empty());
}
