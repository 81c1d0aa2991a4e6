// Reads containers of another process: dicts of all layouts, instance attributes, tuples, small ints.
// Pointers and counts are untrusted; an implausible container appears empty.
#pragma once

#include "stackdump/cpython/offsets/offsets.h"
#include "stackdump/memory/remote_memory.h"

#include <optional>
#include <string_view>
#include <vector>

namespace xpurun::stackdump {

struct DictItem {
  Addr key = 0;
  Addr value = 0;
};

inline constexpr size_t kMaxDictItems = 16384;

// The first items in insertion order, at most `limit` of them.
std::vector<DictItem> read_dict(RemoteMemory& memory, Addr dict, const Offsets& offsets,
                                size_t limit = kMaxDictItems);
// The value of a str key, 0 if the key is absent.
Addr dict_value(RemoteMemory& memory, Addr dict, std::string_view key, const Offsets& offsets);
// The attributes of the instance itself (not of its class), at most `limit` of them.
std::vector<DictItem> attributes(RemoteMemory& memory, Addr object, const Offsets& offsets, size_t limit);
// An attribute of the instance itself (not of its class), 0 if absent.
Addr attribute(RemoteMemory& memory, Addr object, std::string_view name, const Offsets& offsets);

// The first items, at most `limit` of them.
std::vector<Addr> read_tuple(RemoteMemory& memory, Addr tuple, const Offsets& offsets, size_t limit);

// The value of an int; nothing if the value does not fit.
std::optional<int64_t> read_int(RemoteMemory& memory, Addr object, const Offsets& offsets);

// Facts from the object's type: the flags that CPython sets for subclasses of its basic types, and the name.
struct TypeView {
  Addr address = 0;
  uint64_t flags = 0;
  std::string name;  // "Tensor", for some C types with the module: "torch.Tensor"
};
std::optional<TypeView> type_of(RemoteMemory& memory, Addr object, const Offsets& offsets);

}  // namespace xpurun::stackdump
