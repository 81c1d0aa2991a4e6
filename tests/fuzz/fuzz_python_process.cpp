// Input: one byte selects a recorded process, then patches of 12 bytes: where (a recorded range and a
// place in it) and what to put there; small values stand for addresses of recorded ranges. Everything is read
// from the patched process.
#include "common/base/os/io.h"
#include "tests/support/python_image.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

using namespace xpurun;
using namespace xpurun::stackdump;

namespace {

struct Range {
  Addr begin = 0;
  char* bytes = nullptr;
  size_t size = 0;
};

struct Recorded {
  MemoryImage image;
  std::vector<Range> ranges;  // of the image, ascending
};

const Recorded& recorded(size_t index) {
  static const std::vector<Recorded> all = [] {
    const char* source = std::getenv("XPURUN_TEST_SOURCE");
    std::vector<Recorded> out;
    for (const char* version : {"3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15"}) {
      const auto file = base::read_file(std::string(source == nullptr ? "." : source) +
                                        "/tests/data/cpython/" + version + ".image");
      auto image = file ? MemoryImage::unpack(*file) : base::fail("");
      if (!image) {
        std::abort();  // XPURUN_TEST_SOURCE must name the source directory
      }
      out.push_back({.image = std::move(*image)});
    }
    for (Recorded& r : out) {
      for (auto& [addr, bytes] : r.image.ranges) {
        r.ranges.push_back({.begin = addr, .bytes = bytes.data(), .size = bytes.size()});
      }
    }
    return out;
  }();
  return all[index % all.size()];
}

// The recorded bytes with patches in them as long as this lives.
class PatchedMemory : public RemoteMemory {
 public:
  PatchedMemory(const Recorded& r, const uint8_t* data, size_t size) : recorded_(r) {
    for (; size >= 12 && patches_.size() < 64; data += 12, size -= 12) {
      uint32_t where = 0;
      uint64_t what = 0;
      std::memcpy(&where, data, 4);
      std::memcpy(&what, data + 4, 8);
      if (what < 65536 && what >= 256) {
        what = r.ranges[what % r.ranges.size()].begin + what % 3 * 8;
      }
      const Range& range = r.ranges[where % r.ranges.size()];
      if (const size_t at = where / 65536 % 512 * 8; range.size >= 8 && at <= range.size - 8) {
        patches_.emplace_back(range.bytes + at, 0);
        std::memcpy(&patches_.back().second, range.bytes + at, 8);
        std::memcpy(range.bytes + at, &what, 8);
      }
    }
  }
  PatchedMemory(const PatchedMemory&) = delete;
  PatchedMemory& operator=(const PatchedMemory&) = delete;
  ~PatchedMemory() override {
    for (; !patches_.empty(); patches_.pop_back()) {
      std::memcpy(patches_.back().first, &patches_.back().second, 8);
    }
  }
  bool read(Addr addr, std::span<std::byte> into) override {
    if (++reads_ > 4'000'000) {
      std::abort();  // not bounded
    }
    const auto next = std::upper_bound(recorded_.ranges.begin(), recorded_.ranges.end(), addr,
                                       [](Addr a, const Range& r) { return a < r.begin; });
    if (next == recorded_.ranges.begin()) {
      return false;
    }
    const Range& r = *std::prev(next);
    const size_t at = addr - r.begin;
    if (at > r.size || into.size() > r.size - at) {
      return false;
    }
    std::memcpy(into.data(), r.bytes + at, into.size());
    return true;
  }

 private:
  const Recorded& recorded_;
  std::vector<std::pair<char*, uint64_t>> patches_;  // where, and what was there
  size_t reads_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const Recorded& r = recorded(data[0]);
  PatchedMemory memory(r, data + 1, size - 1);
  const std::string text = read_everything(memory, r.image.python, r.image.runtime);
  if (text.empty()) {
    std::abort();
  }
  return 0;
}
