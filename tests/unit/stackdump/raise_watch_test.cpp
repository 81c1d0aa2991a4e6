#include "stackdump/resolve/raise_watch.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::stackdump;

namespace {

HandledException raised(const char* type, Addr code, int line) {
  return {.type = type,
          .message = {},
          .traceback = {{.frame = {.code = 1}}, {.frame = {.code = code}, .line = line}}};
}

}  // namespace

TEST_CASE("an exception that several looks have met at one line") {
  CHECK(met_often({}).type.empty());
  CHECK(met_often({raised("KeyError", 8, 4), raised("KeyError", 8, 4)}).type.empty());
  CHECK(
      met_often({raised("KeyError", 8, 4), raised("KeyError", 8, 5), raised("KeyError", 9, 4)}).type.empty());
  CHECK(met_often({raised("KeyError", 8, 4), raised("OSError", 8, 4), raised("KeyError", 8, 4),
                   raised("KeyError", 8, 4)})
            .type == "KeyError");
  // Without a traceback it is not known whether they are the same.
  CHECK(met_often({{.type = "OSError"}, {.type = "OSError"}, {.type = "OSError"}}).type.empty());
}
