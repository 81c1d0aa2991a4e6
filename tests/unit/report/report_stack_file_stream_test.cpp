#include "common/base/os/io.h"
#include "report/run/stack_file_stream.h"
#include "tests/unit/report/sample_stacks.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::report;

TEST_CASE("files come in order, whichever thread reads them first") {
  REQUIRE(base::make_dirs("stream"));
  std::vector<std::string> paths;
  for (int rank = 0; rank < 300; ++rank) {
    paths.push_back("stream/rank-" + std::to_string(rank) + ".stacks.json");
    if (rank != 7) {
      REQUIRE(base::write_file_atomic(paths.back(), model::stacks_file(testing::sample_rank(rank))));
    }
  }
  StackFileStream stream(paths);
  for (int rank = 0; rank < 300; ++rank) {
    const auto s = stream.next();
    CHECK(s.has_value() == (rank != 7));
    if (s) {
      CHECK(s->process.rank == rank);
      CHECK(to_json(expand(*s)) == to_json(testing::sample_rank(rank)));
    }
  }
  // A stream that is destroyed early ends its threads.
  StackFileStream abandoned(paths);
  CHECK(abandoned.next());
}
