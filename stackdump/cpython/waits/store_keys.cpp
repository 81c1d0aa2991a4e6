#include "stackdump/cpython/waits/store_keys.h"

#include "common/base/strings.h"
#include "stackdump/cpython/dict.h"
#include "stackdump/cpython/locals/type_flags.h"
#include "stackdump/cpython/value_stack.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::stackdump {

namespace {

constexpr size_t kOfCalls = 16;  // what the calls around this one have pushed
constexpr size_t kLongestKey = 100;
constexpr size_t kMostKeys = 3;

class KeyReader {
 public:
  KeyReader(RemoteMemory& memory, const Offsets& offsets, const PySnapshot& snapshot)
      : memory_(memory), o_(offsets), stack_(memory, offsets, snapshot) {}

  std::string key_of(const RawFrame& frame) {
    const ValueStack::Slots slots = stack_.kept(frame);
    for (size_t i = slots.depth; slots.known && i < slots.depth + kOfCalls; ++i) {
      if (is_store(stack_.reference(frame, slots.first + i))) {
        return words_of(stack_.reference(frame, slots.first + i + 1));
      }
    }
    return {};
  }

 private:
  Addr pointer(Addr a) { return memory_.value<uint64_t>(a).value_or(0); }

  // A store, or a method that is bound to one.
  bool is_store(Addr object) {
    auto type = object == 0 || object % alignof(Addr) != 0 ? std::nullopt : type_of(memory_, object, o_);
    if (type && type->name == "method") {
      const Addr self = pointer(object + kMethodSelf);
      type = self == 0 ? std::nullopt : type_of(memory_, self, o_);
    }
    return type && type->name.ends_with("Store");
  }

  // A key, or a list of keys.
  std::string words_of(Addr argument) {
    const auto type = argument == 0 ? std::nullopt : type_of(memory_, argument, o_);
    if (!type) {
      return {};
    }
    if ((type->flags & kUnicode) != 0) {
      const auto key = read_unicode(memory_, argument, o_, kLongestKey);
      return key ? fmt::format("key {}", *key) : std::string();
    }
    if ((type->flags & kList) == 0) {
      return {};
    }
    const uint64_t size = memory_.value<uint64_t>(argument + o_.sequence_size).value_or(0);
    std::string keys;
    for (uint64_t i = 0; i < std::min<uint64_t>(size, kMostKeys); ++i) {
      const Addr item = pointer(pointer(argument + o_.list_items) + i * sizeof(Addr));
      const auto key = read_unicode(memory_, item, o_, kLongestKey);
      keys += key ? (keys.empty() ? "" : ", ") + *key : std::string();
    }
    return keys.empty()        ? keys
           : size == 1         ? fmt::format("key {}", keys)
           : size <= kMostKeys ? fmt::format("keys {}", keys)
                               : fmt::format("keys {}, ...", keys);
  }

  RemoteMemory& memory_;
  const Offsets& o_;
  ValueStack stack_;
};

}  // namespace

std::vector<StoreKey> read_store_keys(RemoteMemory& memory, const Offsets& offsets,
                                      const PySnapshot& snapshot, base::MonoNs deadline) {
  std::vector<StoreKey> out;
  KeyReader reader(memory, offsets, snapshot);
  for (const PyThread& thread : snapshot.threads) {
    const bool known = offsets.minor >= 11 && !thread.groups.empty() && !thread.groups.front().frames.empty();
    if (!known || base::mono_ns() > deadline) {
      continue;
    }
    if (std::string key = reader.key_of(thread.groups.front().frames.front()); !key.empty()) {
      out.push_back({.waiter = thread.thread_id, .key = std::move(key)});
    }
  }
  return out;
}

void name_store_keys(const std::vector<StoreKey>& keys, std::vector<model::ThreadStack>& threads) {
  for (const StoreKey& key : keys) {
    const auto waiter = std::find_if(threads.begin(), threads.end(),
                                     [&](const model::ThreadStack& t) { return t.thread_id == key.waiter; });
    if (waiter != threads.end()) {
      waiter->target = base::sanitize(key.key);
    }
  }
}

}  // namespace xpurun::stackdump
