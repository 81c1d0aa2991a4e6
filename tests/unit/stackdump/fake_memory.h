// FakeMemory: a few byte ranges as the memory of another process.
#pragma once

#include "stackdump/memory/remote_memory.h"

#include <cstring>
#include <map>

namespace xpurun::stackdump {

class FakeMemory : public RemoteMemory {
 public:
  std::vector<std::byte>& add(Addr base, size_t size) {
    return ranges_.emplace(base, std::vector<std::byte>(size)).first->second;
  }
  template <typename T>
  void put(Addr addr, T value) {
    for (auto& [base, bytes] : ranges_) {
      if (addr >= base && addr + sizeof(T) <= base + bytes.size()) {
        std::memcpy(bytes.data() + (addr - base), &value, sizeof(T));
      }
    }
  }
  bool read(Addr addr, std::span<std::byte> into) override {
    ++reads;
    for (const auto& [base, bytes] : ranges_) {
      if (addr >= base && addr - base <= bytes.size() && into.size() <= bytes.size() - (addr - base)) {
        std::memcpy(into.data(), bytes.data() + (addr - base), into.size());
        return true;
      }
    }
    return false;
  }
  size_t reads = 0;

 private:
  std::map<Addr, std::vector<std::byte>> ranges_;
};

}  // namespace xpurun::stackdump
