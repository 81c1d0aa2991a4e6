// Test program: `speed_tool DIR RANKS STEPS [input|none]` writes span files of a made training job below
// DIR/ranks. With `input`, the last rank loads its data 25 ms longer from the middle of the run on.
#include "common/base/os/io.h"
#include "common/model/timing/span_encoder.h"
#include "common/model/timing/span_file.h"
#include "tests/unit/report/speed/made_job.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

using namespace xpurun;

namespace {

constexpr size_t kBlock = size_t{64} << 10;
constexpr int64_t kWall = 1'800'000'000'000'000'000;

std::string file_of(const report::RankRecord& rank) {
  const model::SpanFile& file = rank.spans[0];
  std::string out = model::SpanEncoder::header(
      {.rank = rank.rank, .pid = 100 + rank.rank, .host = rank.host, .mono_ns = 0, .wall_ns = kWall});
  model::SpanEncoder encoder;
  size_t load = 0;
  for (model::Span span : file.spans) {
    for (uint32_t* text : {&span.name, &span.place, &span.group}) {
      *text = encoder.name(file.names[*text]);
    }
    encoder.add(span);
    for (; load < file.loads.size() && file.loads[load].at_ns <= span.begin_ns; ++load) {
      encoder.add(file.loads[load]);
    }
    if (encoder.pending() >= kBlock) {
      out += encoder.take_block();
    }
  }
  return out + encoder.take_block();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: speed_tool DIR RANKS STEPS [input|none]\n");
    return 2;
  }
  tests::MadeJob job{
      .ranks = std::atoi(argv[2]), .steps = std::atoi(argv[3]), .ranks_per_host = 8, .visible_calls = true};
  if (argc > 4 && std::string_view(argv[4]) == "input") {
    job.change = [&job](int rank, int step, tests::StepParts& p) {
      p.data += rank == job.ranks - 1 && step >= job.steps / 2 ? 25 : 0;
    };
  }
  for (const report::RankRecord& rank : tests::make_ranks(job)) {
    const std::string dir = fmt::format("{}/ranks/{}", argv[1], rank.rank);
    if (!base::make_dirs(dir) || !base::write_file_atomic(dir + "/spans-1.xsp", file_of(rank))) {
      std::fprintf(stderr, "cannot write below %s\n", dir.c_str());
      return 1;
    }
  }
  return 0;
}
