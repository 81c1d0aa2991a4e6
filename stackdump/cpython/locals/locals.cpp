#include "stackdump/cpython/locals/locals.h"

#include "common/model/secrets/redact.h"
#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/locals/pyspy_repr.h"
#include "stackdump/cpython/locals/type_flags.h"
#include "stackdump/cpython/object.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxVariableName = 100;  // bytes shown of a variable's name
constexpr size_t kMaxText = 80;           // bytes shown of a str or bytes
// Longer texts are shown by their size only: a text that was cut off may evade the masking of secrets.
constexpr size_t kMaxRead = 4096;
constexpr size_t kMaxTotal = 20'000;  // variables of one process

constexpr uint8_t kCellOrFree = 0x40 | 0x80;  // CO_FAST_CELL, CO_FAST_FREE

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

std::string quoted(std::string_view prefix, const std::string& text) {
  const std::string safe = model::redact_text(text);
  std::string out(prefix);
  out += '\'';
  size_t shown = 0;
  // Cut at a character's end, so that the text stays valid UTF-8.
  for (; shown < safe.size() && (shown < kMaxText || is_continuation(safe[shown])); ++shown) {
    const auto c = static_cast<unsigned char>(safe[shown]);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\'' || c == '\\') {
      out += '\\';
      out += safe[shown];
    } else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !prefix.empty())) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += safe[shown];
    }
  }
  out += '\'';
  return shown < safe.size() ? out + "..." : out;
}

std::string sized(std::string_view type, int64_t size) {
  return size < 0 ? fmt::format("<{}>", type) : fmt::format("<{} of {}>", type, size);
}

std::string int_repr(RemoteMemory& memory, Addr object, const TypeView& type, const Offsets& o) {
  const auto value = read_int(memory, object, o);
  if (type.name == "bool") {
    return !value ? "?" : *value != 0 ? "True" : "False";
  }
  if (!value) {
    return fmt::format("<{}, large>", type.name);
  }
  return type.name == "int" ? fmt::format("{}", *value) : fmt::format("<{} {}>", type.name, *value);
}

std::string text_repr(RemoteMemory& memory, Addr object, const TypeView& type, const Offsets& o) {
  const bool is_bytes = (type.flags & kBytes) != 0;
  const uint32_t at = is_bytes ? o.bytes_size : o.unicode_length;
  const int64_t size = memory.value<int64_t>(object + at).value_or(-1);
  const auto text =
      is_bytes ? read_bytes_object(memory, object, o, kMaxRead) : read_unicode(memory, object, o, kMaxRead);
  if (!text) {
    return sized(type.name, size);
  }
  return quoted(is_bytes ? "b" : "", *text);
}

// Names of the variables in slot order, and whether a slot may hold a cell.
struct Slots {
  std::vector<Addr> names;
  std::vector<bool> cells;
};

Slots slots_of(RemoteMemory& memory, Addr code, const Offsets& o) {
  const auto names = [&](uint32_t at) {
    return read_tuple(memory, memory.value<uint64_t>(code + at).value_or(0), o, kMaxLocals);
  };
  Slots out{.names = names(o.code_local_names), .cells = {}};
  if (o.code_local_kinds != kAbsent) {
    const Addr kinds = memory.value<uint64_t>(code + o.code_local_kinds).value_or(0);
    for (size_t i = 0; i < out.names.size(); ++i) {
      out.cells.push_back((memory.value<uint8_t>(kinds + o.bytes_data + i).value_or(0) & kCellOrFree) != 0);
    }
    return out;
  }
  // Before 3.11, cells and free variables have their own tuples of names; their slots follow the locals.
  out.cells.resize(out.names.size(), false);
  if (out.names.size() < kMaxLocals) {  // a skipped name would shift all later slots
    for (const uint32_t at : {o.code_cell_names, o.code_free_names}) {
      const auto more = names(at);
      out.names.insert(out.names.end(), more.begin(), more.end());
    }
  }
  out.cells.resize(out.names.size(), true);
  return out;
}

// The reference in a variable's slot. From 3.14 on, it has tags in its low bits (_PyStackRef).
Addr slot_of(RemoteMemory& memory, const RawFrame& frame, size_t slot, const Offsets& o) {
  const Addr value = memory.value<uint64_t>(frame.address + o.frame_locals + slot * 8).value_or(0);
  return o.frame_tagged ? value & ~kTagBits : value;
}

// The object of a slot that may hold a cell. An argument lies there directly until the function makes its
// cells.
Addr content_of(RemoteMemory& memory, Addr value, const Offsets& o) {
  const auto type = type_of(memory, value, o);
  return type && type->name == "cell" ? memory.value<uint64_t>(value + o.cell_content).value_or(0) : value;
}

}  // namespace

std::string short_repr(RemoteMemory& memory, Addr object, const Offsets& o) {
  const auto type = type_of(memory, object, o);
  if (!type) {
    return "?";
  }
  const auto number = [&](uint32_t at) { return memory.value<int64_t>(object + at).value_or(-1); };
  if (type->name == "NoneType") {
    return "None";
  }
  if ((type->flags & kLong) != 0) {
    return int_repr(memory, object, *type, o);
  }
  if (type->name == "float") {
    const auto value = memory.value<double>(object + o.float_value);
    return value ? fmt::format("{}", *value) : "?";
  }
  if ((type->flags & (kUnicode | kBytes)) != 0) {
    return text_repr(memory, object, *type, o);
  }
  if ((type->flags & (kList | kTuple)) != 0) {
    return sized(type->name, number(o.sequence_size));
  }
  if ((type->flags & kDict) != 0) {
    return sized(type->name, number(o.dict_used));
  }
  if (type->name == "set" || type->name == "frozenset") {
    return sized(type->name, number(o.set_used));
  }
  return fmt::format("<{}>", type->name);
}

std::vector<model::Local> read_frame_locals(RemoteMemory& memory, const RawFrame& frame, const Offsets& o) {
  std::vector<model::Local> out;
  const Slots slots = slots_of(memory, frame.code, o);
  const auto arguments = memory.value<int32_t>(frame.code + o.code_argument_count).value_or(0);
  for (size_t i = 0; i < slots.names.size() && out.size() < kMaxLocals; ++i) {
    Addr value = slot_of(memory, frame, i, o);
    auto name = read_unicode(memory, slots.names[i], o, kMaxVariableName);
    if (value == 0 || !name) {
      continue;  // unbound, or not a variable
    }
    model::Local local{.name = std::move(*name),
                       .value = std::string(model::kMask),
                       .address = value,
                       .argument = static_cast<int64_t>(i) < arguments};
    if (slots.cells[i] && (value = content_of(memory, value, o)) == 0) {
      continue;
    }
    if (!model::is_secret_name(local.name)) {
      local.value = short_repr(memory, value, o);
      local.pyspy = pyspy_repr(memory, value, o);
      if (local.pyspy == local.value) {
        local.pyspy.clear();
      }
    }
    out.push_back(std::move(local));
  }
  return out;
}

std::vector<Addr> bound_objects(RemoteMemory& memory, const RawFrame& frame, const Offsets& o) {
  const Slots slots = slots_of(memory, frame.code, o);
  std::vector<Addr> out;
  for (size_t i = 0; i < slots.names.size(); ++i) {
    const Addr slot = slot_of(memory, frame, i, o);
    const Addr value = slot != 0 && slots.cells[i] ? content_of(memory, slot, o) : slot;
    if (value != 0) {
      out.push_back(value);
    }
  }
  return out;
}

bool read_locals(RemoteMemory& memory, const Offsets& o, PySnapshot& snapshot, base::MonoNs deadline) {
  size_t total = 0;
  snapshot.with_locals = true;
  for (const PyThread& t : snapshot.threads) {
    size_t frames = 0;
    for (const FrameGroup& group : t.groups) {
      for (const RawFrame& f : group.frames) {
        if (++frames > kMaxLocalFrames || total >= kMaxTotal) {
          break;
        }
        if (base::mono_ns() >= deadline) {
          return false;
        }
        auto locals = read_frame_locals(memory, f, o);
        total += locals.size();
        if (!locals.empty()) {
          snapshot.locals.emplace(f.address, std::move(locals));
        }
      }
    }
  }
  return true;
}

}  // namespace xpurun::stackdump
