#include "common/model/evidence/memory_users.h"

#include <algorithm>

namespace xpurun::model {

namespace {

constexpr int64_t kMostBytes = int64_t{1} << 50;
constexpr size_t kMostListed = 64;

}  // namespace

void limit(MemoryUsers& users) {
  const auto tame = [](int64_t& bytes) { bytes = std::clamp<int64_t>(bytes, 0, kMostBytes); };
  users.users.resize(std::min(users.users.size(), kMostListed));
  users.mapped.resize(std::min(users.mapped.size(), kMostListed));
  for (int64_t* bytes : {&users.limit_bytes, &users.used_bytes, &users.shared_bytes}) {
    tame(*bytes);
  }
  for (MemoryUser& user : users.users) {
    tame(user.bytes);
    tame(user.grown);
    tame(user.copied);
  }
  for (MappedMemory& mapped : users.mapped) {
    tame(mapped.bytes);
  }
}

}  // namespace xpurun::model
