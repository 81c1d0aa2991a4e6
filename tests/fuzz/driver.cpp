// Runs a fuzz target without libFuzzer: driver SEEDS_DIRECTORY [ROUNDS]. Runs each seed unchanged, then
// variations of seeds: ROUNDS (2000), or $XPURUN_FUZZ_RUNS, or for $XPURUN_FUZZ_SECONDS; with both variables
// until the first of the two ends. The variations are the same each time unless $XPURUN_FUZZ_SEED (1)
// differs. A finding ends the process, as a sanitizer or an assertion would under libFuzzer, and leaves the
// input in a file fuzz-finding-PID of the temporary directory. The last line has the number of executions
// and the slowest execution.
#include "common/base/os/io.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Defined by the sanitizers' runtime only.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Seconds = std::chrono::duration<double>;

const std::string* current_input = nullptr;

// The process is dying, perhaps with a broken heap; only the test's own files are at risk.
void keep_input() {
  if (const std::string* input = std::exchange(current_input, nullptr); input != nullptr) {
    const auto path = std::filesystem::temp_directory_path() / ("fuzz-finding-" + std::to_string(::getpid()));
    std::cerr << "the input is in " << path << '\n';
    (void)xpurun::base::write_file_atomic(path.string(), *input);
  }
}

void on_abort(int /*signal*/) {
  keep_input();
  std::signal(SIGABRT, SIG_DFL);
  std::raise(SIGABRT);
}

void run(const std::string& input) {
  current_input = &input;
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  current_input = nullptr;
}

long number_from_environment(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atol(text);
}

std::string varied(std::string s, std::mt19937& random) {
  const size_t changes = 1 + random() % 8;
  for (size_t i = 0; i < changes; ++i) {
    const size_t at = s.empty() ? 0 : random() % s.size();
    switch (random() % 5) {
      case 0:
        s.insert(at, 1, static_cast<char>(random()));
        break;
      case 1:
        s.erase(at, random() % 8);
        break;
      case 2:
        s += s.substr(at, random() % 64);
        break;
      case 3:
        s.resize(at);
        break;
      default:
        if (!s.empty()) {
          static constexpr unsigned char kEdges[] = {0, 1, 0x7f, 0x80, 0xff};
          s[at] = static_cast<char>(random() % 2 == 0 ? kEdges[random() % 5] : random());
        }
    }
  }
  return s;
}

struct Limits {
  long rounds = 0;    // 0: none
  Seconds seconds{};  // 0: none
};

Limits limits_of(const char* rounds) {
  Limits out{.rounds = number_from_environment("XPURUN_FUZZ_RUNS", 0),
             .seconds = Seconds(static_cast<double>(number_from_environment("XPURUN_FUZZ_SECONDS", 0)))};
  if (out.rounds <= 0 && out.seconds.count() <= 0) {
    out.rounds = rounds == nullptr ? 2000 : std::atol(rounds);
  }
  return out;
}

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

void vary(const std::vector<std::string>& seeds, const Limits& limits) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(number_from_environment("XPURUN_FUZZ_SEED", 1)));
  const auto begun = std::chrono::steady_clock::now();
  const double begun_cpu = cpu_seconds();
  double cpu = begun_cpu;
  double slowest = 0;
  size_t slowest_bytes = 0;
  long done = 0;
  while ((limits.rounds <= 0 || done < limits.rounds) &&
         (limits.seconds.count() <= 0 || std::chrono::steady_clock::now() - begun < limits.seconds)) {
    const std::string input = varied(seeds[random() % seeds.size()], random);
    run(input);
    ++done;
    // CPU time, because the machine may have other work.
    const double before = std::exchange(cpu, cpu_seconds());
    if (cpu - before > slowest) {
      slowest = cpu - before;
      slowest_bytes = input.size();
    }
  }
  std::cout << seeds.size() << " seeds, " << done << " variations in " << cpu - begun_cpu
            << " s of CPU time; the slowest took " << slowest * 1e3 << " ms (" << slowest_bytes
            << " bytes)\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " SEEDS_DIRECTORY [ROUNDS]\n";
    return 2;
  }
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds = {""};
  for (const std::string& path : paths) {
    if (auto text = xpurun::base::read_file(path)) {
      seeds.push_back(std::move(*text));
    }
  }
  if (seeds.size() < 2) {
    std::cerr << "no seeds in " << argv[1] << '\n';
    return 1;
  }
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(keep_input);
  }
  std::signal(SIGABRT, on_abort);
  for (const std::string& seed : seeds) {
    run(seed);
  }
  vary(seeds, limits_of(argc > 2 ? argv[2] : nullptr));
  return 0;
}
