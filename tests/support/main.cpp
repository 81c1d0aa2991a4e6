// doctest's main with a temporary directory: tests run inside it; on failure the directory is kept and named.
#define DOCTEST_CONFIG_IMPLEMENT
#include "tests/support/accepted_goldens.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

// Meson's exit status for a skipped test.
static constexpr int kSkipped = 77;

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  std::string name = fs::temp_directory_path() / "xpurun-test-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    std::perror(name.c_str());
    return 1;
  }
  const fs::path dir = name;
  fs::current_path(dir);
  doctest::Context context(argc, argv);
  const int rc = context.run();
  fs::current_path("/");
  if (rc == 0) {
    fs::remove_all(dir);
  } else {
    std::fprintf(stderr, "test files kept in %s\n", dir.c_str());
  }
  if (rc == 0 && xpurun::testing::accepted_goldens > 0) {
    std::fprintf(stderr, "%d golden texts written, none compared\n", xpurun::testing::accepted_goldens);
    return kSkipped;
  }
  return rc;
}
