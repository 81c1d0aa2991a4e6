// In what two calls of the same number on one communicator differ, as far as a difference is illegal. Pure.
#pragma once

#include "common/model/collectives.h"

#include <string>

namespace xpurun::report {

// From the gravest to the smallest: a call of another operation is not compared further.
enum class Difference { operation, root, type, size, none };

// Sizes may differ in gather, scatter and all_to_all (uneven splits) and where objects are sent; there and
// where a size, type or root is unknown, the calls count as equal.
Difference difference(const model::CollectiveCall& a, const model::CollectiveCall& b);

// Equal for calls that do not differ in this respect. `any`: unknown, equal to all.
std::string compared_value(const model::CollectiveCall& call, Difference what);
inline constexpr const char* kAnyValue = "";

// The operation ends for all ranks only after all have entered. The root of a broadcast, and all but the root
// of a reduce, may leave earlier.
bool needs_everybody(const model::CollectiveCall& call);

}  // namespace xpurun::report
