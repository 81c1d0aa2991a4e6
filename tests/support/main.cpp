// doctest's main with a temporary directory of its own: tests run inside it; it is kept and named on failure.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <unistd.h>

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  const fs::path dir = fs::temp_directory_path() / ("xpurun-test-" + std::to_string(::getpid()));
  fs::create_directories(dir);
  fs::current_path(dir);
  doctest::Context context(argc, argv);
  const int rc = context.run();
  fs::current_path("/");
  if (rc == 0) {
    fs::remove_all(dir);
  } else {
    std::fprintf(stderr, "test files kept in %s\n", dir.c_str());
  }
  return rc;
}
