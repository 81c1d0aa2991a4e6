// Timed calls become spans once their places are known, and calls that were not timed are counted.
#include "launcher/mpi/mpi_spans.h"

#include "common/wire/mpi_functions.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <random>

using namespace xpurun;
using namespace xpurun::launcher;
using wire::MpiFunction;

namespace {

constexpr base::MonoNs kNow = 10'000'000'000;

struct TimedCalls {
  std::unique_ptr<wire::MpiSegment> memory = std::make_unique<wire::MpiSegment>();
  std::vector<std::string> names{""};
  bool known = true;
  MpiSpans spans;

  TimedCalls() {
    std::memset(static_cast<void*>(memory.get()), 0, sizeof *memory);
    memory->comms[0].rank = 1;
    memory->comms[0].size = 4;
    memory->threads[0].tid = 7;
  }
  void call(MpiFunction function, uint64_t sequence, int peer = wire::kMpiNoRank, int tag = 0,
            bool receives = false) {
    const uint64_t number = ++memory->timed_calls;
    wire::MpiTimedCall& slot = memory->timed[(number - 1) % wire::kMpiTimed];
    slot.number = number;
    slot.time = {.begin_ns = 1000 * number,
                 .duration_ns = 400,
                 .sequence = sequence,
                 .bytes = 64,
                 .caller = 0x401136,
                 .function = static_cast<uint32_t>(function),
                 .comm = 0,
                 .peer = peer,
                 .tag = tag,
                 .receives = receives ? 1u : 0u,
                 .tid = 7};
  }
  MpiSpans::Found read(base::MonoNs now = kNow, bool last = false) {
    const auto index = [this](const std::string& text) {
      if (text.empty()) {
        return uint32_t{0};
      }
      names.push_back(text);
      return static_cast<uint32_t>(names.size() - 1);
    };
    const auto place = [this](uint64_t) {
      return known ? std::optional<std::string>("heat.c:88 (residual)") : std::nullopt;
    };
    return spans.read(*memory, {.index = index, .place = place}, now, last);
  }
};

}  // namespace

TEST_CASE("a timed call of MPI is a span of its group") {
  TimedCalls c;
  c.call(MpiFunction::MPI_Allreduce, 3);
  c.call(MpiFunction::MPI_Recv, 2, 0, 5, true);
  c.call(MpiFunction::MPI_Isend, 4, 2);
  c.call(MpiFunction::MPI_Waitall, 0);
  const auto found = c.read().spans;
  REQUIRE(found.size() == 4);
  const auto group = [&](size_t i) { return c.names[found[i].group]; };
  CHECK(
      (group(0) == "world" && group(1) == "world tag 5 0>1" && group(2) == "world 1>2" && group(3).empty()));
  CHECK((found[0].mpi_collective && !found[1].mpi_collective && !found[3].mpi_collective));
  CHECK(c.names[found[0].name] == "MPI_Allreduce");
  CHECK(c.names[found[0].place] == "heat.c:88 (residual)");
  CHECK((found[0].stage == model::Stage::communication && found[0].sequence == 3 && found[0].bytes == 64));
  CHECK((found[0].begin_ns == 1000 && found[0].duration_ns == 400 && found[0].cpu_ns == 0 &&
         found[0].thread == 7));
  CHECK(c.read().spans.empty());
}

TEST_CASE("a span waits until the place of its call is known") {
  TimedCalls c;
  c.known = false;
  c.call(MpiFunction::MPI_Barrier, 1);
  CHECK((c.read().spans.empty() && !c.spans.empty()));
  c.known = true;
  CHECK((c.read().spans.size() == 1 && c.spans.empty()));
}

TEST_CASE("calls that were not timed took as long as those that were") {
  TimedCalls c;
  wire::MpiSite& site = c.memory->sites[5];
  site.caller = 0x401136;
  site.function = static_cast<uint32_t>(MpiFunction::MPI_Send);
  CHECK(c.read(kNow).others.empty());
  site.calls = 1000;
  site.bytes = 8000;
  site.timed = 10;
  site.timed_ns = 4000;
  CHECK(c.read(kNow + 1000).others.empty());  // counted once a second
  const auto others = c.read(kNow + 2000, true).others;
  REQUIRE(others.size() == 1);
  CHECK((others[0].calls == 990 && others[0].bytes == 7920));
  CHECK(others[0].total_ns == 2000);  // no longer than the time that passed
  CHECK((others[0].begin_ns == kNow && others[0].duration_ns == 2000));
  CHECK(c.names[others[0].name] == "MPI_Send");
  site.calls = 1010;
  const auto more = c.read(kNow + 2'000'000'000, false).others;
  REQUIRE(more.size() == 1);
  CHECK((more[0].calls == 10 && more[0].total_ns == 4000));
}

TEST_CASE("a ring that has turned loses calls and says how many") {
  TimedCalls c;
  for (uint32_t i = 0; i < wire::kMpiTimed + 100; ++i) {
    c.call(MpiFunction::MPI_Barrier, i + 1);
  }
  CHECK(c.read().spans.size() == wire::kMpiTimed);
  CHECK(c.spans.lost() == 100);
}

TEST_CASE("random memory becomes spans without harm") {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    TimedCalls c;
    auto* words = reinterpret_cast<uint64_t*>(c.memory.get());
    for (size_t i = 0; i < sizeof(wire::MpiSegment) / sizeof(uint64_t); ++i) {
      words[i] = random() >> (random() % 64);
    }
    for (uint32_t i = 0; i < wire::kMpiTimed; ++i) {
      c.memory->timed[i].number = i + 1;
    }
    for (const model::Span& span : c.read(kNow, true).spans) {
      CHECK((span.begin_ns >= 0 && span.duration_ns >= 0));
    }
  }
}
