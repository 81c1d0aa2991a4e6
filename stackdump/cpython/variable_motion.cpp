#include "stackdump/cpython/variable_motion.h"

#include "common/base/hash.h"
#include "stackdump/cpython/object.h"

#include <algorithm>
#include <array>
#include <span>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxVariables = 400;  // of the outermost frames: a loop is further out than its callees
constexpr size_t kMaxGlobals = 400;    // variables of scripts, the newest first
constexpr uint32_t kMaxSlots = 64;     // of one frame
constexpr size_t kMaxKnown = 4096;     // code objects and types
constexpr size_t kMaxTypeName = 16;    // longer than any name searched for

// A thread that waits in these modules changes variables without progress.
constexpr std::array<std::string_view, 3> kWaiting = {"/torch/utils/data/", "/torch/distributed/",
                                                      "/torch/multiprocessing/"};

bool contains(std::string_view text, std::string_view piece) {
  return text.find(piece) != std::string_view::npos;
}

bool is_left_out(std::string_view file) {
  const bool standard = contains(file, "/lib/python3.") && !contains(file, "-packages/");
  return standard || file.starts_with("<frozen") ||
         std::any_of(kWaiting.begin(), kWaiting.end(),
                     [&](std::string_view piece) { return contains(file, piece); });
}

}  // namespace

VariableMotion::Code VariableMotion::code_at(RemoteMemory& memory, Addr code, const Offsets& o) {
  if (const auto known = codes_.find(code); known != codes_.end()) {
    return known->second;
  }
  Code out;
  const auto file = read_unicode(memory, memory.value<uint64_t>(code + o.code_filename).value_or(0), o);
  if (file && !is_left_out(*file)) {
    out.is_left_out = false;
    for (const uint32_t at : {o.code_local_names, o.code_cell_names, o.code_free_names}) {
      const Addr names = at == kAbsent ? 0 : memory.value<uint64_t>(code + at).value_or(0);
      const int64_t size = names == 0 ? 0 : memory.value<int64_t>(names + o.sequence_size).value_or(0);
      out.slots += static_cast<uint32_t>(std::clamp<int64_t>(size, 0, kMaxSlots));
    }
    out.slots = std::min(out.slots, kMaxSlots);
  }
  if (codes_.size() >= kMaxKnown) {
    codes_.clear();
  }
  return codes_[code] = out;
}

VariableMotion::Kind VariableMotion::kind_of(RemoteMemory& memory, Addr type, const Offsets& o) {
  if (const auto known = kinds_.find(type); known != kinds_.end()) {
    return known->second;
  }
  const auto name = memory.c_string(memory.value<uint64_t>(type + o.type_name).value_or(0), kMaxTypeName);
  Kind kind = Kind::other;
  if (name == "int") {
    kind = Kind::integer;
  } else if (name == "float" || (memory.value<uint64_t>(type + o.type_flags).value_or(0) & kException) != 0) {
    kind = Kind::left_out;
  }
  if (kinds_.size() >= kMaxKnown) {
    kinds_.clear();
  }
  return kinds_[type] = kind;
}

// Integers need their value: a new int may reuse the address of the previous one, and ints are immutable. The
// content of other objects, including closure cells, is ignored: other threads may change it. Floats are
// ignored: a waiting loop reads them from the clock.
uint64_t VariableMotion::value_of(RemoteMemory& memory, uint64_t slot, const Offsets& o) {
  const Addr object = o.frame_tagged ? slot & ~kTagBits : slot;
  const Addr type = object == 0 ? 0 : memory.value<uint64_t>(object + o.object_type).value_or(0);
  if (type == 0) {
    return slot;
  }
  switch (kind_of(memory, type, o)) {
    case Kind::integer:
      return base::hash_words(object, {memory.value<uint64_t>(object + o.long_size).value_or(0),
                                       memory.value<uint32_t>(object + o.long_digits).value_or(0)});
    case Kind::left_out:
      return 0;
    case Kind::other:
      break;
  }
  return object;
}

uint64_t VariableMotion::fingerprint(RemoteMemory& memory, const PyThread& thread, const Offsets& o) {
  uint64_t out = 0;
  size_t variables = 0;
  size_t globals = 0;
  std::array<uint64_t, kMaxSlots> slots{};
  for (auto group = thread.groups.rbegin(); group != thread.groups.rend(); ++group) {
    for (auto frame = group->frames.rbegin(); frame != group->frames.rend() && variables < kMaxVariables;
         ++frame) {
      const Code code = code_at(memory, frame->code, o);
      const auto here = std::span(slots).first(code.slots);
      if (code.is_left_out) {
        continue;
      }
      if (here.empty()) {
        const auto objects = modules_.values(memory, *frame, o, kMaxGlobals - globals);
        globals += objects.size();
        for (const Addr object : objects) {
          out = base::hash_words(out, {value_of(memory, object, o)});
        }
        continue;
      }
      if (!memory.read(frame->address + o.frame_locals, std::as_writable_bytes(here))) {
        continue;
      }
      variables += here.size();
      for (const uint64_t slot : here) {
        out = base::hash_words(out, {value_of(memory, slot, o)});
      }
    }
  }
  return out;
}

}  // namespace xpurun::stackdump
