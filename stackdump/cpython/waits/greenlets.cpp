#include "stackdump/cpython/waits/greenlets.h"

#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/object.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMostGreenlets = 256;
constexpr size_t kMostFrames = 64;  // of one greenlet
constexpr size_t kMostBases = 8;
constexpr size_t kTypeBase = 256;        // tp_base
constexpr size_t kGreenletState = 32;    // pointer to the C++ object, behind weak references and dict
constexpr size_t kStateBytes = 512;      // of that object, whose fields differ between versions
constexpr size_t kDeadlineEvery = 1024;  // objects
constexpr size_t kHeadBytes = 16;        // PyObject_HEAD
constexpr uint64_t kFlags = 3;           // in the links of the collector's lists
constexpr size_t kMostObjects = size_t{1} << 22;
constexpr size_t kMostWaiters = 1024;  // of one lock
constexpr Addr kGeneration = 24;       // size of the head of one of the collector's lists

// PyGC_Head and PyObject_HEAD, in this order.
struct Tracked {
  uint64_t next = 0;
  uint64_t previous = 0;
  uint64_t references = 0;
  uint64_t type = 0;
};
constexpr size_t kBeforeObject = 16;

class GreenletReader {
 public:
  GreenletReader(RemoteMemory& memory, const Offsets& offsets, PySnapshot& out, base::MonoNs deadline)
      : memory_(memory), o_(offsets), out_(out), deadline_(deadline) {}

  void read(Addr interp) {
    const Addr modules = pointer(interp + o_.interp_modules);
    if (dict_value(memory_, modules, "greenlet", o_) == 0) {
      return;
    }
    // The dict of the modules is in the oldest list. The heads of the lists lie in the interpreter, the
    // younger ones before it.
    const Addr head = walk(modules - kBeforeObject, interp);
    for (Addr younger = 1; head != 0 && younger <= 2; ++younger) {
      walk(head - younger * kGeneration, interp);
    }
    for (RawTask& task : out_.tasks) {
      const auto lock = locks_.find(task.address);
      task.lock = lock == locks_.end() ? 0 : lock->second;
    }
  }

 private:
  Addr pointer(Addr a) { return memory_.value<uint64_t>(a).value_or(0); }

  // Follows a list once around; returns its head, 0 if the list could not be followed.
  Addr walk(Addr start, Addr interp) {
    constexpr Addr kInterpreterBytes = Addr{1} << 20;
    Addr head = 0;
    Addr at = start;
    do {
      const auto node = memory_.value<Tracked>(at);
      if (!node || ++objects_ > kMostObjects ||
          (objects_ % kDeadlineEvery == 0 && base::mono_ns() > deadline_)) {
        return 0;
      }
      if (at >= interp && at < interp + kInterpreterBytes) {
        head = at;
      } else if (const Kind kind = kind_of(node->type); kind == Kind::greenlet) {
        add(at + kBeforeObject);
      } else if (kind == Kind::lock) {
        note_waiters(at + kBeforeObject);
      }
      at = node->next & ~kFlags;
    } while (at != start);
    return head;
  }

  enum class Kind { other, greenlet, lock };

  Kind kind_of(Addr type) {
    const auto known = types_.find(type);
    if (known != types_.end()) {
      return known->second;
    }
    Kind found = Kind::other;
    Addr base = type;
    for (size_t i = 0; i < kMostBases && base != 0 && found == Kind::other; ++i) {
      const auto name = memory_.c_string(pointer(base + o_.type_name), 256);
      found = name == "greenlet.greenlet"                      ? Kind::greenlet
              : name == "gevent._gevent_c_semaphore.Semaphore" ? Kind::lock
                                                               : Kind::other;
      base = name ? pointer(base + kTypeBase) : 0;
    }
    return types_.emplace(type, found).first->second;
  }

  // A lock of gevent has a list of the methods that resume those who wait: greenlet.switch.
  void note_waiters(Addr lock) {
    const auto type = type_of(memory_, lock, o_);
    const auto size =
        type ? memory_.value<int64_t>(type->address + o_.type_basicsize).value_or(0) : int64_t{0};
    const auto raw = memory_.bytes(lock, std::clamp<size_t>(static_cast<size_t>(size), 0, kStateBytes));
    const auto bytes = std::as_bytes(std::span(raw ? *raw : std::string()));
    for (size_t at = kHeadBytes; at + sizeof(Addr) <= bytes.size(); at += sizeof(Addr)) {
      const Addr value = field<uint64_t>(bytes, at).value_or(0);
      const bool address = value > 4096 && value % alignof(Addr) == 0;
      const auto of = address ? type_of(memory_, value, o_) : std::nullopt;
      const auto waiters =
          of && of->name == "list" ? memory_.value<uint64_t>(value + o_.sequence_size).value_or(0) : 0;
      for (size_t i = 0; i < std::min<size_t>(waiters, kMostWaiters); ++i) {
        const Addr method = pointer(pointer(value + o_.list_items) + i * sizeof(Addr));
        locks_[pointer(method + kMethodSelf)] = lock;
      }
    }
  }

  // The state of a suspended greenlet has its innermost frame object; that of a running one has none.
  void add(Addr greenlet) {
    const auto state = memory_.bytes(pointer(greenlet + kGreenletState), kStateBytes);
    if (!state || out_.tasks.size() >= kMostGreenlets) {
      return;
    }
    RawTask task{.address = greenlet, .object = "greenlet"};
    const auto bytes = std::as_bytes(std::span(*state));
    for (size_t at = 0; at + sizeof(Addr) <= bytes.size() && task.frames.empty(); at += sizeof(Addr)) {
      const Addr value = field<uint64_t>(bytes, at).value_or(0);
      const bool address = value > 4096 && value % alignof(Addr) == 0;
      const auto type = address ? type_of(memory_, value, o_) : std::nullopt;
      if (type && type->name == "frame") {
        follow(o_.frame_of_object == kAbsent ? value : pointer(value + o_.frame_of_object), task);
      }
    }
    if (!task.frames.empty()) {
      task.name = fmt::format("Greenlet-{}", ++number_);
      out_.tasks.push_back(std::move(task));
    }
  }

  // The frames below a call from C are in the saved part of the C stack.
  void follow(Addr frame, RawTask& task) {
    for (size_t i = 0; i < kMostFrames && frame != 0; ++i) {
      if (!add_frame(memory_, o_, frame, out_, task.frames)) {
        return;
      }
      frame = pointer(frame + o_.frame_previous);
    }
  }

  RemoteMemory& memory_;
  const Offsets& o_;
  PySnapshot& out_;
  base::MonoNs deadline_;
  size_t objects_ = 0;
  size_t number_ = 0;
  std::unordered_map<Addr, Kind> types_;
  std::unordered_map<Addr, Addr> locks_;  // by the greenlet that waits
};

}  // namespace

void read_greenlets(RemoteMemory& memory, const PythonRuntime& runtime, PySnapshot& snapshot,
                    base::MonoNs deadline) {
  constexpr int kLastKnown = 13;
  const Addr interp =
      memory.value<uint64_t>(runtime.address + runtime.offsets.runtime_interpreters).value_or(0);
  if (interp != 0 && runtime.offsets.minor <= kLastKnown) {
    GreenletReader(memory, runtime.offsets, snapshot, deadline).read(interp);
  }
}

}  // namespace xpurun::stackdump
