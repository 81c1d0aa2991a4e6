#include "launcher/spawn/environment.h"

#include <doctest/doctest.h>

using namespace xpurun::launcher;
using Env = std::vector<std::string>;

TEST_CASE("our library comes first and others keep their order") {
  CHECK(with_preload(Env{"A=1"}, "/x/libp.so") == Env{"A=1", "LD_PRELOAD=/x/libp.so"});
  CHECK(with_preload(Env{"LD_PRELOAD=/a.so /b.so:/c.so", "A=1"}, "/x/libp.so") ==
        Env{"A=1", "LD_PRELOAD=/x/libp.so:/a.so:/b.so:/c.so"});
  CHECK(with_preload(Env{"LD_PRELOAD="}, "/x/libp.so") == Env{"LD_PRELOAD=/x/libp.so"});
}

TEST_CASE("xpurun inside xpurun does not preload twice") {
  CHECK(with_preload(Env{"LD_PRELOAD=/old/libp.so:/a.so"}, "/x/libp.so") ==
        Env{"LD_PRELOAD=/x/libp.so:/a.so"});
}

TEST_CASE("a variable is replaced, not repeated, and no name is taken for its prefix") {
  CHECK(with_variable(Env{"AB=1", "A=2"}, "A", "3") == Env{"AB=1", "A=3"});
}
