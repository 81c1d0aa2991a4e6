// Reading containers out of another process: dicts in all their shapes, attributes of instances, tuples,
// small ints. Pointers and counts are hostile; a container that makes no sense looks empty.
#pragma once

#include "stackdump/cpython/offsets.h"
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

// The first items in the order of insertion, at most `limit`.
std::vector<DictItem> read_dict(RemoteMemory& memory, Addr dict, const Offsets& offsets,
                                size_t limit = kMaxDictItems);
// The value under a str key, 0 if there is none.
Addr dict_value(RemoteMemory& memory, Addr dict, std::string_view key, const Offsets& offsets);
// An attribute that the object itself holds (not its class), 0 if there is none.
Addr attribute(RemoteMemory& memory, Addr object, std::string_view name, const Offsets& offsets);

// The first items, at most `limit`.
std::vector<Addr> read_tuple(RemoteMemory& memory, Addr tuple, const Offsets& offsets, size_t limit);

// The value of an int that fits.
std::optional<int64_t> read_int(RemoteMemory& memory, Addr object, const Offsets& offsets);

// What the object's type says: flags that CPython sets for subclasses of its basic types, and the name.
struct TypeView {
  Addr address = 0;
  uint64_t flags = 0;
  std::string name;  // "Tensor", for some C types with the module: "torch.Tensor"
};
std::optional<TypeView> type_of(RemoteMemory& memory, Addr object, const Offsets& offsets);

}  // namespace xpurun::stackdump
