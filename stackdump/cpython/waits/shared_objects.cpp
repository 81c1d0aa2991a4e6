#include "stackdump/cpython/waits/shared_objects.h"

#include "stackdump/cpython/dict.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMostVariables = 64;   // of a frame
constexpr size_t kMostUserFrames = 32;  // of a thread
constexpr size_t kMostAttributes = 64;  // of an object
constexpr size_t kMostNames = 256;      // of a code object
constexpr std::array<std::string_view, 3> kWaiting = {"/threading.py", "/queue.py",
                                                      "/concurrent/futures/_base.py"};

class ObjectReader {
 public:
  ObjectReader(RemoteMemory& memory, const Offsets& offsets, const PySnapshot& snapshot)
      : memory_(memory), o_(offsets), snapshot_(snapshot) {}

  // `self` of the outermost method of the standard library that the thread waits in; 0: it waits in none.
  Addr awaited(const PyThread& thread) {
    Addr out = 0;
    for (const FrameGroup& group : thread.groups) {
      for (const RawFrame& f : group.frames) {
        if (!waits(f)) {
          return out;
        }
        const std::vector<Addr> slots = values(f);
        out = slots.empty() ? out : slots.front();
      }
    }
    return 0;  // a thread of the library's own
  }

  bool knows(const PyThread& thread, Addr object) {
    size_t frames = 0;
    for (const FrameGroup& group : thread.groups) {
      for (const RawFrame& f : group.frames) {
        if (frames++ == kMostUserFrames) {
          return false;
        }
        if (has_local(f, object) || uses_global(f, object)) {
          return true;
        }
      }
    }
    return false;
  }

 private:
  Addr pointer(Addr a) { return memory_.value<uint64_t>(a).value_or(0); }

  bool waits(const RawFrame& frame) const {
    const auto code = snapshot_.code.find(frame.code);
    return code != snapshot_.code.end() &&
           std::any_of(kWaiting.begin(), kWaiting.end(),
                       [&](std::string_view end) { return code->second.filename.ends_with(end); });
  }

  // What the local variables of the frame refer to.
  std::vector<Addr> values(const RawFrame& frame) {
    uint64_t count = 0;
    for (const uint32_t at : {o_.code_local_names, o_.code_cell_names, o_.code_free_names}) {
      const Addr names = at == kAbsent ? 0 : pointer(frame.code + at);
      count += names == 0 ? 0 : pointer(names + o_.sequence_size);
    }
    std::vector<Addr> out;
    for (size_t i = 0; i < std::min<uint64_t>(count, kMostVariables); ++i) {
      const Addr word = pointer(frame.address + o_.frame_locals + i * sizeof(Addr));
      out.push_back(o_.frame_tagged ? word & ~kTagBits : word);
    }
    return out;
  }

  bool has_local(const RawFrame& frame, Addr object) {
    for (const Addr value : values(frame)) {
      if (value == object) {
        return true;
      }
      const auto type = value == 0 ? std::nullopt : type_of(memory_, value, o_);
      if (!type) {
        continue;
      }
      if (type->name == "cell" && pointer(value + o_.cell_content) == object) {
        return true;
      }
      const auto items = attributes(memory_, value, o_, kMostAttributes);
      if (std::any_of(items.begin(), items.end(), [&](const DictItem& i) { return i.value == object; })) {
        return true;
      }
    }
    return false;
  }

  bool uses_global(const RawFrame& frame, Addr object) {
    const Addr globals = pointer(frame.address + o_.frame_globals);
    const auto used = read_tuple(memory_, pointer(frame.code + o_.code_names), o_, kMostNames);
    const std::unordered_set<Addr> names(used.begin(), used.end());
    if (names.empty() || o_.frame_globals == kAbsent) {
      return false;
    }
    const auto items = read_dict(memory_, globals, o_);
    return std::any_of(items.begin(), items.end(),
                       [&](const DictItem& i) { return i.value == object && names.contains(i.key); });
  }

  RemoteMemory& memory_;
  const Offsets& o_;
  const PySnapshot& snapshot_;
};

}  // namespace

std::vector<ObjectShare> read_sharers(RemoteMemory& memory, const Offsets& offsets,
                                      const PySnapshot& snapshot, base::MonoNs deadline) {
  std::vector<ObjectShare> out;
  if (snapshot.threads.size() < 2) {
    return out;
  }
  ObjectReader reader(memory, offsets, snapshot);
  for (const PyThread& waiter : snapshot.threads) {
    const Addr object = reader.awaited(waiter);
    for (const PyThread& other : snapshot.threads) {
      if (object == 0 || base::mono_ns() > deadline) {
        break;
      }
      if (other.thread_id != waiter.thread_id && reader.knows(other, object)) {
        out.push_back({.waiter = waiter.thread_id, .sharer = other.thread_id});
      }
    }
  }
  return out;
}

void name_sharers(const std::vector<ObjectShare>& shares, std::vector<model::ThreadStack>& threads) {
  const auto thread_of = [&threads](uint64_t id) {
    return std::find_if(threads.begin(), threads.end(),
                        [id](const model::ThreadStack& t) { return t.thread_id == id; });
  };
  for (const ObjectShare& share : shares) {
    const auto waiter = thread_of(share.waiter);
    const auto sharer = thread_of(share.sharer);
    if (waiter != threads.end() && sharer != threads.end()) {
      waiter->sharers.push_back(sharer->tid);
    }
  }
}

}  // namespace xpurun::stackdump
