#include "stackdump/cpython/dict.h"

#include "stackdump/cpython/object.h"

#include <algorithm>

namespace xpurun::stackdump {

namespace {

constexpr uint64_t kManagedDict = uint64_t{1} << 4;   // Py_TPFLAGS_MANAGED_DICT
constexpr uint64_t kInlineValues = uint64_t{1} << 2;  // Py_TPFLAGS_INLINE_VALUES
constexpr size_t kMaxKeys = size_t{1} << 24;          // per table
constexpr int64_t kTooMany = -4;                      // digits of a negative int
constexpr size_t kMaxAttributes = 256;                // per instance

// Location of the entries of a key table (PyDictKeysObject).
struct KeyTable {
  Addr entries = 0;
  size_t count = 0;
  size_t entry_size = 24;  // hash, key, value; without the hash 16
  size_t key_at = 8;
};

// PyDictKeysObject up to 3.10: the size itself; the indices have 1, 2 or 4 bytes by that size.
std::optional<KeyTable> sized_keys(RemoteMemory& memory, Addr keys) {
  struct Head {
    int64_t refcnt, size;
    uint64_t lookup;
    int64_t usable, entries;
  };
  const auto head = memory.value<Head>(keys);
  if (!head || head->size <= 0 || head->size > static_cast<int64_t>(kMaxKeys) || head->entries < 0 ||
      head->entries > head->size) {
    return std::nullopt;
  }
  const auto size = static_cast<uint64_t>(head->size);
  const uint64_t index_size = size <= 0xff ? 1 : size <= 0xffff ? 2 : 4;
  return KeyTable{.entries = keys + sizeof(Head) + size * index_size,
                  .count = static_cast<size_t>(head->entries)};
}

// PyDictKeysObject from 3.11 on: logarithms of the sizes. Kind 0: general keys, 1: str only, 2: split.
std::optional<KeyTable> log2_keys(RemoteMemory& memory, Addr keys) {
  struct Head {
    int64_t refcnt;
    uint8_t log2_size, log2_index_bytes, kind, unused;
    uint32_t version;
    int64_t usable, entries;
  };
  static_assert(sizeof(Head) == 32);
  const auto head = memory.value<Head>(keys);
  if (!head || head->log2_size > 24 || head->log2_index_bytes > 27 || head->kind > 2 || head->entries < 0 ||
      head->entries > int64_t{1} << head->log2_size) {
    return std::nullopt;
  }
  KeyTable t{.entries = keys + sizeof(Head) + (uint64_t{1} << head->log2_index_bytes),
             .count = static_cast<size_t>(head->entries)};
  if (head->kind != 0) {  // all keys are str, which store their own hash
    t.entry_size = 16;
    t.key_at = 0;
  }
  return t;
}

std::vector<DictItem> read_items(RemoteMemory& memory, Addr keys, Addr values, const Offsets& o,
                                 size_t limit) {
  std::vector<DictItem> out;
  const auto table = keys == 0          ? std::nullopt
                     : o.dict_log2_keys ? log2_keys(memory, keys)
                                        : sized_keys(memory, keys);
  if (!table) {
    return out;
  }
  const size_t count = std::min(table->count, limit);
  const auto raw = memory.bytes(table->entries, count * table->entry_size);
  const auto split = values == 0 ? std::nullopt : memory.bytes(values + o.values_items, count * 8);
  if (!raw || (values != 0 && !split)) {
    return out;
  }
  const auto entries = std::as_bytes(std::span(*raw));
  for (size_t i = 0; i < count; ++i) {
    const size_t at = i * table->entry_size + table->key_at;
    DictItem item{field<uint64_t>(entries, at).value_or(0), field<uint64_t>(entries, at + 8).value_or(0)};
    if (split) {
      item.value = field<uint64_t>(std::as_bytes(std::span(*split)), i * 8).value_or(0);
    }
    if (item.key != 0 && item.value != 0) {  // other entries are deleted or unset
      out.push_back(item);
    }
  }
  return out;
}

Addr find(RemoteMemory& memory, const std::vector<DictItem>& items, std::string_view key, const Offsets& o) {
  for (const DictItem& item : items) {
    // Lengths are compared first: most keys differ in length, so their text need not be read.
    const auto length = memory.value<int64_t>(item.key + o.unicode_length);
    if (length == static_cast<int64_t>(key.size()) && read_unicode(memory, item.key, o) == key) {
      return item.value;
    }
  }
  return 0;
}

}  // namespace

std::vector<DictItem> read_dict(RemoteMemory& memory, Addr dict, const Offsets& o, size_t limit) {
  if (dict == 0) {
    return {};
  }
  return read_items(memory, memory.value<uint64_t>(dict + o.dict_keys).value_or(0),
                    memory.value<uint64_t>(dict + o.dict_values).value_or(0), o, limit);
}

Addr dict_value(RemoteMemory& memory, Addr dict, std::string_view key, const Offsets& o) {
  return find(memory, read_dict(memory, dict, o), key, o);
}

std::vector<DictItem> attributes(RemoteMemory& memory, Addr object, const Offsets& o, size_t limit) {
  const auto pointer = [&memory](Addr a) { return memory.value<uint64_t>(a).value_or(0); };
  const Addr type = pointer(object + o.object_type);
  if (type == 0) {
    return {};
  }
  const uint64_t flags = pointer(type + o.type_flags);
  const bool managed = o.attributes != Attributes::by_offset && (flags & kManagedDict) != 0;
  Addr dict = 0;
  Addr values = 0;
  if (!managed) {
    const auto offset = memory.value<int64_t>(type + o.type_dictoffset).value_or(0);
    dict = offset > 0 && offset < 4096 ? pointer(object + static_cast<uint64_t>(offset)) : 0;
    // 3.11: two words before the object, values and dict, of which at most one is set.
  } else if (o.attributes == Attributes::values_before) {
    values = pointer(object - 32);
    dict = pointer(object - 24);
    // 3.12: one word (PyDictOrValues). Values are stored minus 1, so their lowest bit is set.
  } else if (o.attributes == Attributes::tagged_before) {
    const uint64_t word = pointer(object - 24);
    if ((word & 1) != 0) {
      values = word + 1;
    } else {
      dict = word;
    }
  } else {
    dict = pointer(object - o.managed_dict);
    const uint64_t size = pointer(type + o.type_basicsize);
    if (dict == 0 && (flags & kInlineValues) != 0 && size < 65536 &&
        memory.value<uint8_t>(object + size + 3) == uint8_t{1}) {  // "valid"
      // The values follow the object itself. Python clears "valid" when it moves them into a dict.
      values = object + size;
    }
  }
  if (values != 0) {
    return read_items(memory, pointer(type + o.type_cached_keys), values, o, limit);
  }
  return read_dict(memory, dict, o, limit);
}

Addr attribute(RemoteMemory& memory, Addr object, std::string_view name, const Offsets& o) {
  return find(memory, attributes(memory, object, o, kMaxAttributes), name, o);
}

std::vector<Addr> read_tuple(RemoteMemory& memory, Addr tuple, const Offsets& o, size_t limit) {
  const auto size = tuple == 0 ? std::nullopt : memory.value<int64_t>(tuple + o.sequence_size);
  if (!size || *size <= 0) {
    return {};
  }
  std::vector<Addr> out(std::min(static_cast<size_t>(*size), limit));
  return memory.read(tuple + o.tuple_items, std::as_writable_bytes(std::span(out))) ? out
                                                                                    : std::vector<Addr>();
}

std::optional<int64_t> read_int(RemoteMemory& memory, Addr object, const Offsets& o) {
  const auto size = memory.value<int64_t>(object + o.long_size);
  if (!size || object == 0) {
    return std::nullopt;
  }
  const bool tagged = o.minor >= 12;  // since 3.12: the lowest two bits are 0 positive, 1 zero, 2 negative
  const bool negative = tagged ? (*size & 3) == 2 : *size < 0;
  const int64_t count = tagged     ? ((*size & 3) == 1 ? 0 : *size >> 3)
                        : negative ? -std::max(*size, kTooMany)
                                   : *size;
  if (count < 0 || count > 3) {
    return std::nullopt;
  }
  uint64_t value = 0;  // digits of 30 bits: two of them and the three low bits of a third
  for (int64_t i = count; i-- > 0;) {
    const auto digit = memory.value<uint32_t>(object + o.long_digits + static_cast<uint64_t>(i) * 4);
    if (!digit || *digit >> (i == 2 ? 3 : 30) != 0) {
      return std::nullopt;
    }
    value = value << 30 | *digit;
  }
  return negative ? -static_cast<int64_t>(value) : static_cast<int64_t>(value);
}

std::optional<TypeView> type_of(RemoteMemory& memory, Addr object, const Offsets& o) {
  const auto type = object == 0 ? std::nullopt : memory.value<uint64_t>(object + o.object_type);
  const auto name = type ? memory.value<uint64_t>(*type + o.type_name) : std::nullopt;
  const auto flags = type ? memory.value<uint64_t>(*type + o.type_flags) : std::nullopt;
  if (!name || !flags) {
    return std::nullopt;
  }
  auto text = memory.c_string(*name, 256);
  if (!text) {
    return std::nullopt;
  }
  return TypeView{.address = *type, .flags = *flags, .name = std::move(*text)};
}

}  // namespace xpurun::stackdump
