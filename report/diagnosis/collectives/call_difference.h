// Illegal differences between two calls with the same sequence number on one communicator. Pure.
#pragma once

#include "common/model/collectives.h"

#include <string>

namespace xpurun::report {

// Gravest first. Calls of different operations are not compared further. Different reductions hang no rank,
// and so are compared only by who asks for them.
enum class Difference { operation, members, root, type, size, none, reduction };

// Sizes may differ in all_to_all (uneven splits) and where objects are sent. Such calls count as equal, as do
// calls with an unknown size, type or root.
Difference difference(const model::CollectiveCall& a, const model::CollectiveCall& b);

// One `what` alone.
bool differ(const model::CollectiveCall& a, const model::CollectiveCall& b, Difference what);

// Equal for calls that do not differ in `what`. `any`: unknown, equal to all.
std::string compared_value(const model::CollectiveCall& call, Difference what);
inline constexpr const char* kAnyValue = "";

// The operation ends for every rank only after all ranks have entered. Exceptions: the root of a broadcast,
// and all but the root of a reduce, may leave earlier.
bool needs_everybody(const model::CollectiveCall& call);

}  // namespace xpurun::report
