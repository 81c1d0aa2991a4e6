// Operations and data types as other tools name them, as the numbers of our files.
#pragma once

#include "common/model/timing/timed_event.h"
#include "report/events/activity.h"

#include <cstdint>
#include <string_view>

namespace xpurun::report {

// The key of a call of a function that we do not know.
model::EventKey key_of_category(Category category);
// Sets the function of a collective: "allreduce", "_allgather_base", and the type of elements if the name has
// it: "ncclDevKernel_AllReduce_Sum_f32_RING_LL".
// False: no collective has this name.
bool set_collective(model::EventKey& key, std::string_view name);
// As in the key of a call; a negative type is kNoType.
uint8_t type_byte(int type);
// "BFloat16" of torch, "bf16". ncclDataType_t; negative: unknown.
int nccl_type(std::string_view name);
// cudaDataType_t; negative: unknown.
int cuda_type(std::string_view name);
// Index of the communicator, which is added if new.
int communicator_of(Activity& activity, uint64_t identity, int size);
// Bytes of an element of an ncclDataType_t.
uint64_t nccl_type_bytes(int type);

}  // namespace xpurun::report
