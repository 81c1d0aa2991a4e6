// Golden texts: expect_golden("report/stacks.txt", text) compares with tests/golden/report/stacks.txt. With
// XPURUN_TEST_ACCEPT=1 the file is written instead, and the program reports that it was skipped: nothing was
// compared. Look at the difference before committing it.
#pragma once

#include "common/base/os/io.h"
#include "tests/support/accepted_goldens.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace xpurun::testing {

inline void expect_golden(const std::string& name, std::string_view text) {
  const char* source = std::getenv("XPURUN_TEST_SOURCE");
  REQUIRE(source != nullptr);
  const std::string path = std::string(source) + "/tests/golden/" + name;
  if (const char* accept = std::getenv("XPURUN_TEST_ACCEPT"); accept != nullptr && accept[0] == '1') {
    REQUIRE(base::write_file_atomic(path, text));
    ++accepted_goldens;
    return;
  }
  const auto expected = base::read_file(path);
  REQUIRE(expected);
  CHECK(*expected == text);
}

}  // namespace xpurun::testing
