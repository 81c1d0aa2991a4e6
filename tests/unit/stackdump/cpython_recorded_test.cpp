// Reads recorded memory of every version of CPython, whole, truncated and corrupted.
#include "common/base/os/io.h"
#include "tests/support/python_image.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

using namespace xpurun;
using namespace xpurun::stackdump;

namespace {

constexpr const char* kVersions[] = {"3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15"};

std::string data_file(const std::string& name) {
  const char* source = std::getenv("XPURUN_TEST_SOURCE");
  REQUIRE(source != nullptr);
  const auto text = base::read_file(std::string(source) + "/tests/data/cpython/" + name);
  REQUIRE_MESSAGE(text, name);
  return *text;
}

MemoryImage image_of(const std::string& version) {
  auto image = MemoryImage::unpack(data_file(version + ".image"));
  REQUIRE(image);
  return std::move(*image);
}

}  // namespace

TEST_CASE("every version's recorded memory gives the recorded frames") {
  for (const std::string version : kVersions) {
    CAPTURE(version);
    const MemoryImage image = image_of(version);
    ImageMemory memory(image);
    CHECK(read_everything(memory, image.python, image.runtime) == data_file(version + ".txt"));
  }
}

TEST_CASE("an incomplete recorded image still gives an answer") {
  std::mt19937 random(7);
  for (const std::string version : kVersions) {
    const MemoryImage whole = image_of(version);
    for (int round = 0; round < 20; ++round) {
      MemoryImage cut = whole;
      std::erase_if(cut.ranges, [&](const auto& r) {
        return random() % 32 == 0 && !(r.first <= cut.runtime && cut.runtime < r.first + r.second.size());
      });
      ImageMemory memory(cut);
      CHECK_FALSE(read_everything(memory, cut.python, cut.runtime).empty());
    }
  }
}

TEST_CASE("corrupted recorded images are read in bounded time") {
  std::mt19937_64 random(11);
  for (const std::string version : kVersions) {
    const MemoryImage whole = image_of(version);
    std::vector<Addr> pointers;
    for (const auto& [addr, bytes] : whole.ranges) {
      pointers.push_back(addr);
    }
    for (int round = 0; round < 30; ++round) {
      MemoryImage bad = whole;
      for (auto& [addr, bytes] : bad.ranges) {
        for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
          if (random() % 400 == 0) {
            const uint64_t word = random() % 2 == 0 ? pointers[random() % pointers.size()] : random();
            std::memcpy(bytes.data() + i, &word, 8);
          }
        }
      }
      ImageMemory memory(bad);
      CHECK_FALSE(read_everything(memory, bad.python, bad.runtime).empty());
      CHECK(memory.reads < 2'000'000);
    }
  }
}

TEST_CASE("files that are not images are refused") {
  CHECK_FALSE(MemoryImage::unpack(""));
  CHECK_FALSE(MemoryImage::unpack("XPIMAGE1"));
  CHECK_FALSE(MemoryImage::unpack(std::string("XPIMAGE1") + std::string(8, '\xff')));
  std::string file = data_file("3.8.image");
  file.resize(file.size() / 2);
  CHECK_FALSE(MemoryImage::unpack(file));
}
