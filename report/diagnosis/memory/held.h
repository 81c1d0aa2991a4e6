// Who holds memory in one look (common/model/memory/memory_look.h): sums, differences between ranks, and the
// words for a holder. Pure.
#pragma once

#include "common/model/memory/memory_look.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

// "cuda" of "cuda:1"
std::string_view kind_of_device(std::string_view device);

struct CategoryBytes {
  model::MemoryCategory category = model::MemoryCategory::tensors;
  int64_t bytes = 0;
};
// Of the device, or of all devices of this kind; most bytes first.
std::vector<CategoryBytes> by_category(const model::MemoryLook& look, std::string_view kind);
int64_t bytes_of(const model::MemoryLook& look, std::string_view kind, model::MemoryCategory category);
// What tensors and libraries hold through the allocator: neither unused nor outside.
bool is_held(model::MemoryCategory category);

// The innermost line of the user's code in the stack of the allocation; else of a package; else the innermost
// line. Null: the allocation was not recorded.
const model::MemoryPlace* users_place(const model::MemoryLook& look, const model::MemoryHolder& holder);

// What holds the most, or has grown the most: holders of one category with equal words together.
struct HeldBy {
  std::string device;
  model::MemoryCategory category = model::MemoryCategory::tensors;
  std::string name;           // of the holder; may be empty
  std::string place;          // of the allocation: "model.py:88 (attention)"; empty: not recorded
  model::MemoryPlace line{};  // the same
  int64_t bytes = 0;
  int64_t count = 0;
  int64_t grown = 0;
  int64_t imported = 0;  // of these bytes: by an import, which each process makes once
};
// Without the rests; most bytes first. Of all devices if `kind` is empty.
std::vector<HeldBy> holders_of(const model::MemoryLook& look, std::string_view kind);
// Most grown first, without those that have not grown.
std::vector<HeldBy> growers_of(const model::MemoryLook& look, std::string_view kind);

// "activations"
std::string category_words(model::MemoryCategory category);
// "activations, allocated in attention (model.py:88)", "list losses of train() (train.py:55)"
std::string holder_words(const HeldBy& held);

// The newest look of each reason, or of the rank in all.
const model::MemoryLook* look_of(const std::vector<model::MemoryLook>& looks, base::Rank rank,
                                 model::LookReason why);
// What is known best of the rank at its end: when no memory was left, else the newest one. Looks before a
// backward pass, and samples of the host memory, do not count.
const model::MemoryLook* last_look(const std::vector<model::MemoryLook>& looks, base::Rank rank);

}  // namespace xpurun::report
