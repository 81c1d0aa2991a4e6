#include "stackdump/cpython/runtime_scan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <unordered_set>

namespace xpurun::stackdump {

namespace {

constexpr uint64_t kMaxImageData = uint64_t{64} << 20;  // of one mapping; interpreters have about 2 MiB
constexpr uint64_t kMaxScanned = uint64_t{256} << 20;
constexpr size_t kStep = size_t{1} << 20;
constexpr size_t kMaxChecked = 1 << 20;  // total number of pointers followed
constexpr std::array<const Offsets*, 5> kStatic = {&kOffsets38, &kOffsets39, &kOffsets310, &kOffsets311,
                                                   &kOffsets312};

struct Region {
  AddrRange range;
  std::string path;
};

// Writable data of mapped files, and the anonymous memory directly behind, which holds .bss. The executable's
// data comes first: its address is the lowest, or it is the only image.
std::vector<Region> data_regions(const ProcMaps& maps, const std::string& image) {
  std::vector<Region> out;
  uint64_t total = 0;
  const Mapping* before = nullptr;
  for (const Mapping& m : maps.all()) {
    const bool behind = before != nullptr && before->hi == m.lo && m.path.empty();
    const std::string& path = behind ? out.back().path : m.path;
    const bool wanted =
        (image.empty() || path == image) && m.readable && m.writable && !m.executable &&
        m.hi - m.lo <= kMaxImageData &&
        ((m.is_file() && !m.path.starts_with("/dev/") && !m.path.starts_with("/memfd:")) || behind);
    before = nullptr;
    if (wanted && total + (m.hi - m.lo) <= kMaxScanned) {
      total += m.hi - m.lo;
      out.push_back({m.range(), std::string(path)});
      before = &m;
    }
  }
  return out;
}

// Calls visit(address, word) for each aligned word until it returns true.
template <typename Visit>
bool each_word(RemoteMemory& memory, const AddrRange& range, const Visit& visit) {
  for (Addr at = range.lo; at < range.hi; at += kStep) {
    const auto part = memory.bytes(at, std::min<uint64_t>(kStep, range.hi - at));
    if (!part) {
      continue;
    }
    for (size_t i = 0; i + 8 <= part->size(); i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, part->data() + i, 8);
      if (word != 0 && visit(at + i, word)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

bool has_traces_of_python(const ProcMaps& maps) {
  return std::any_of(maps.all().begin(), maps.all().end(), [](const Mapping& m) {
    return m.is_file() &&
           (m.path.find(".cpython-3") != std::string::npos || m.path.find("python3") != std::string::npos ||
            m.path.find("lib-dynload") != std::string::npos);
  });
}

bool scan_for_runtime(const ProcMaps& maps, RemoteMemory& memory, const std::string& image,
                      const std::function<bool(const RuntimeGuess&)>& accept) {
  const auto regions = data_regions(maps, image);
  uint64_t cookie = 0;
  std::memcpy(&cookie, "xdebugpy", 8);
  for (const Region& r : regions) {
    if (each_word(memory, r.range, [&](Addr at, uint64_t word) {
          return word == cookie && accept({.address = at, .path = r.path});
        })) {
      return true;
    }
  }
  const auto pointer = [&memory](Addr a) { return memory.value<uint64_t>(a).value_or(0); };
  std::unordered_set<Addr> dead_ends;
  size_t checked = 0;
  const auto leads_to_interpreter = [&](Addr interp, const Offsets& o) {
    const Addr thread = pointer(interp + o.interp_threads);
    return thread != 0 && thread % 8 == 0 && pointer(thread + o.thread_interp) == interp;
  };
  for (const Region& r : regions) {
    const bool found = each_word(memory, r.range, [&](Addr at, uint64_t word) {
      // User-space addresses have 47 bits. Pointers to objects are aligned to 8 bytes.
      if (word % 8 != 0 || word < 65536 || word >> 47 != 0 || dead_ends.contains(word) ||
          checked >= kMaxChecked) {
        return false;
      }
      const Mapping* target = maps.find(word);
      if (target == nullptr || !target->writable || !target->readable) {
        return false;
      }
      ++checked;
      bool any = false;
      for (const Offsets* o : kStatic) {
        if (at >= o->runtime_interpreters && leads_to_interpreter(word, *o)) {
          any = true;
          // The head of the list of interpreters is followed by the main interpreter, the first member of the
          // list. No other field looks like that.
          const Addr main = pointer(at + 8);
          if (main != 0 && (main == word || leads_to_interpreter(main, *o)) &&
              accept({.address = at - o->runtime_interpreters, .minor = o->minor, .path = r.path})) {
            return true;
          }
        }
      }
      if (!any) {
        // Many words point to the same object, so each target is followed once.
        dead_ends.insert(word);
      }
      return false;
    });
    if (found) {
      return true;
    }
  }
  return false;
}

}  // namespace xpurun::stackdump
