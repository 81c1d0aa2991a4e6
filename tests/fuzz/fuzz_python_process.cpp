// Input: one byte selects a recorded process, then patches of 12 bytes: where (counted over all recorded
// bytes) and what to put there; small values stand for addresses of recorded ranges. Everything is read from
// the patched process.
#include "common/base/io.h"
#include "tests/support/python_image.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

using namespace xpurun;
using namespace xpurun::stackdump;

namespace {

struct Recorded {
  MemoryImage image;
  std::vector<Addr> starts;
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
      for (const auto& [addr, bytes] : out.back().image.ranges) {
        out.back().starts.push_back(addr);
      }
    }
    return out;
  }();
  return all[index % all.size()];
}

// The recorded bytes with patches over them.
class PatchedMemory : public RemoteMemory {
 public:
  PatchedMemory(const Recorded& r, const uint8_t* data, size_t size) : plain_(r.image) {
    for (; size >= 12 && patches_.size() < 64; data += 12, size -= 12) {
      uint32_t where = 0;
      uint64_t what = 0;
      std::memcpy(&where, data, 4);
      std::memcpy(&what, data + 4, 8);
      if (what < 65536 && what >= 256) {
        what = r.starts[what % r.starts.size()] + what % 3 * 8;
      }
      patches_.emplace_back(r.starts[where % r.starts.size()] + where / 65536 % 512 * 8, what);
    }
  }
  bool read(Addr addr, std::span<std::byte> into) override {
    if (++reads_ > 4'000'000) {
      std::abort();  // not bounded
    }
    if (!plain_.read(addr, into)) {
      return false;
    }
    for (const auto& [at, what] : patches_) {
      for (size_t i = 0; i < 8; ++i) {
        if (at + i >= addr && at + i - addr < into.size()) {
          into[at + i - addr] = static_cast<std::byte>(what >> 8 * i & 0xff);
        }
      }
    }
    return true;
  }

 private:
  ImageMemory plain_;
  std::vector<std::pair<Addr, uint64_t>> patches_;
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
