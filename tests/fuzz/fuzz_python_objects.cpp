// Input: one byte of Python version, then memory: the bytes themselves, mapped at a fixed address. 8-byte
// words that are smaller than the memory count as addresses in it, so that objects can point to each other.
// Every kind of object is read at every aligned address of a small sample.
#include "common/base/clock.h"
#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/locals/locals.h"
#include "stackdump/cpython/object.h"
#include "stackdump/cpython/offsets/debug_offsets.h"
#include "stackdump/cpython/variable_motion.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

using namespace xpurun;
using namespace xpurun::stackdump;

namespace {

constexpr Addr kBase = 0x10000;

class InputMemory : public RemoteMemory {
 public:
  explicit InputMemory(std::string bytes) : bytes_(std::move(bytes)) {
    for (size_t i = 0; i + 8 <= bytes_.size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes_.data() + i, 8);
      if (word >= 64 && word < bytes_.size()) {
        word += kBase;
        std::memcpy(bytes_.data() + i, &word, 8);
      }
    }
  }
  bool read(Addr addr, std::span<std::byte> into) override {
    if (++reads_ > 2'000'000) {
      std::abort();  // not bounded
    }
    if (addr < kBase || addr - kBase > bytes_.size() || into.size() > bytes_.size() - (addr - kBase)) {
      return false;
    }
    std::memcpy(into.data(), bytes_.data() + (addr - kBase), into.size());
    return true;
  }
  size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
  size_t reads_ = 0;
};

void demand(bool condition) {
  if (!condition) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::array<const Offsets*, 5> kKnown = {&kOffsets38, &kOffsets39, &kOffsets310, &kOffsets311,
                                                       &kOffsets312};
  if (size < 2 || size > 4096) {
    return 0;
  }
  InputMemory memory(std::string(reinterpret_cast<const char*>(data + 1), size - 1));
  Offsets o = *kKnown[data[0] % kKnown.size()];
  if (data[0] >= 128) {  // the version describes itself, in the same memory
    const auto about = read_self_description(memory, kBase);
    const auto told = about ? read_debug_offsets(memory, kBase, *about) : base::fail("");
    if (told) {
      o = *told;
    }
  }
  const size_t step = std::max<size_t>(8, memory.size() / 5 / 8 * 8);
  for (Addr at = kBase; at < kBase + memory.size(); at += step) {
    if (const auto text = read_unicode(memory, at, o, 256)) {
      demand(text->size() <= 4 * 256);
    }
    if (const auto text = read_bytes_object(memory, at, o, 256)) {
      demand(text->size() <= 256);
    }
    demand(read_dict(memory, at, o, 64).size() <= 64);
    attribute(memory, at, "_name", o);
    read_int(memory, at, o);
    demand(short_repr(memory, at, o).size() < 2048);
    if (const auto code = read_code_object(memory, at, o)) {
      RawFrame frame{.code = at, .address = kBase};
      demand(read_frame_locals(memory, frame, o).size() <= kMaxLocals);
    }
    const auto raw = memory.bytes(at, o.thread_size);
    if (raw) {
      const PyThread t = read_py_thread(memory, o, at, std::as_bytes(std::span(*raw)));
      size_t frames = 0;
      for (const FrameGroup& g : t.groups) {
        frames += g.frames.size();
      }
      demand(frames <= kMaxPyFrames);
      VariableMotion variables;
      demand(variables.fingerprint(memory, t, o) == variables.fingerprint(memory, t, o));
    }
  }
  return 0;
}
