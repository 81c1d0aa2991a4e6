// Runs a fuzz target without libFuzzer: driver SEEDS_DIRECTORY [ROUNDS]. Each seed as it is, then ROUNDS
// variations of seeds, always the same ones. A finding ends the process, as a sanitizer or an assertion would
// under libFuzzer.
#include "common/base/io.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
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
  for (const std::string& seed : seeds) {
    run(seed);
  }
  const long rounds = argc > 2 ? std::atol(argv[2]) : 2000;
  std::mt19937 random(1);
  for (long i = 0; i < rounds; ++i) {
    run(varied(seeds[random() % seeds.size()], random));
  }
  std::cout << seeds.size() << " seeds, " << rounds << " variations\n";
  return 0;
}
