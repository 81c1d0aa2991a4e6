#include "stackdump/cpython/locals/handled_exception.h"

#include "common/model/secrets/redact.h"
#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/locals/locals.h"
#include "stackdump/cpython/object.h"

#include <fmt/format.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxMessage = 4096;  // a longer message is left out: cut, it may evade masking
constexpr size_t kMaxArguments = 8;
constexpr int kMaxHandlers = 256;   // entries of the stack of handled exceptions: generators have their own
constexpr int kMaxWalked = 10'000;  // entries of a traceback: of an endless recursion

// The result of str() if the class has no __str__ of its own. KeyError shows its key like repr().
std::string message_of(RemoteMemory& memory, Addr exception, std::string_view type, const Offsets& o) {
  const Addr args = memory.value<uint64_t>(exception + o.exception_args).value_or(0);
  const std::vector<Addr> items = read_tuple(memory, args, o, kMaxArguments);
  if (items.empty()) {
    return {};
  }
  if (items.size() == 1) {
    const auto type_of_item = type_of(memory, items[0], o);
    if (type_of_item && (type_of_item->flags & kUnicode) != 0 && type != "KeyError") {
      return model::redact_text(read_unicode(memory, items[0], o, kMaxMessage).value_or("<long text>"));
    }
    return model::redact_text(short_repr(memory, items[0], o));
  }
  std::string out = "(";
  for (size_t i = 0; i < items.size(); ++i) {
    out += (i == 0 ? "" : ", ") + short_repr(memory, items[i], o);
  }
  return model::redact_text(out + ")");
}

Addr code_of(RemoteMemory& memory, Addr frame_object, const Offsets& o) {
  const auto pointer = [&](Addr a) { return memory.value<uint64_t>(a).value_or(0); };
  const Addr frame = o.frame_of_object == kAbsent ? frame_object : pointer(frame_object + o.frame_of_object);
  return frame == 0 ? 0 : pointer(frame + o.frame_code) & ~(o.frame_tagged ? kTagBits : 0);
}

std::vector<HandledException::Entry> traceback_of(RemoteMemory& memory, Addr exception, const Offsets& o) {
  std::vector<Addr> entries;
  Addr next = memory.value<uint64_t>(exception + o.exception_traceback).value_or(0);
  for (int i = 0; next != 0 && i < kMaxWalked; ++i) {
    // The last entries are the innermost. Halving the list keeps them without holding the whole traceback of
    // an endless recursion.
    if (entries.size() >= 2 * kMaxTraceback) {
      entries.erase(entries.begin(), entries.begin() + kMaxTraceback);
    }
    entries.push_back(next);
    next = memory.value<uint64_t>(next + o.traceback_next).value_or(0);
  }
  if (entries.size() > kMaxTraceback) {
    entries.erase(entries.begin(), entries.end() - static_cast<ptrdiff_t>(kMaxTraceback));
  }
  std::vector<HandledException::Entry> out;
  for (const Addr entry : entries) {
    const Addr frame = memory.value<uint64_t>(entry + o.traceback_frame).value_or(0);
    const Addr code = frame == 0 ? 0 : code_of(memory, frame, o);
    if (code == 0) {
      continue;
    }
    const int bytes = memory.value<int32_t>(entry + o.traceback_instr).value_or(-1);
    const int line = memory.value<int32_t>(entry + o.traceback_line).value_or(0);
    out.push_back({.frame = {.code = code, .instruction = bytes}, .line = line > 0 ? line : 0});
  }
  return out;
}

// The type is empty if the object is no exception.
HandledException exception_at(RemoteMemory& memory, Addr object, const Offsets& o) {
  const auto type = object == 0 ? std::nullopt : type_of(memory, object, o);
  return !type || (type->flags & kException) == 0
             ? HandledException{}
             : HandledException{.type = type->name,
                                .message = message_of(memory, object, type->name, o),
                                .traceback = traceback_of(memory, object, o)};
}

}  // namespace

HandledException handled_by(RemoteMemory& memory, const Offsets& o, Addr thread) {
  Addr item = memory.value<uint64_t>(thread + o.thread_handled).value_or(0);
  for (int i = 0; item != 0 && i < kMaxHandlers; ++i) {
    const Addr value = memory.value<uint64_t>(item + o.handled_value).value_or(0);
    if (HandledException handled = exception_at(memory, value, o); !handled.type.empty()) {
      return handled;
    }
    // None or null: the exception may be handled by an outer function.
    item = memory.value<uint64_t>(item + o.handled_previous).value_or(0);
  }
  return {};
}

HandledException kept_by(RemoteMemory& memory, const Offsets& o, const PyThread& thread) {
  size_t frames = 0;
  for (const FrameGroup& group : thread.groups) {
    for (const RawFrame& frame : group.frames) {
      if (++frames > kMaxLocalFrames) {
        return {};
      }
      for (const Addr object : bound_objects(memory, frame, o)) {
        if (HandledException kept = exception_at(memory, object, o); !kept.traceback.empty()) {
          return kept;
        }
      }
    }
  }
  return {};
}

void add_traceback_code(RemoteMemory& memory, const Offsets& o, const HandledException& handled,
                        PySnapshot& snapshot) {
  for (const HandledException::Entry& entry : handled.traceback) {
    if (snapshot.code.contains(entry.frame.code)) {
      continue;
    }
    if (auto code = read_code_object(memory, entry.frame.code, o)) {
      snapshot.code.emplace(entry.frame.code, std::move(*code));
    }
  }
}

bool read_handled(RemoteMemory& memory, const Offsets& o, PySnapshot& snapshot, base::MonoNs deadline) {
  for (PyThread& t : snapshot.threads) {
    if (o.thread_handled == kAbsent) {
      return true;
    }
    if (base::mono_ns() >= deadline) {
      return false;
    }
    t.handled = handled_by(memory, o, t.address);
    add_traceback_code(memory, o, t.handled, snapshot);
  }
  return true;
}

}  // namespace xpurun::stackdump
