// Maps the names of torch's process groups to the words of model::CollectiveCall.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::report {

// "_all_gather_base" -> "all_gather", "all_reduce_barrier" -> "barrier"; unknown names stay unchanged.
std::string op_word(std::string_view op);

// The tensor whose size is the count that the program passed; for most operations the input.
enum class CountOf { input, output };
CountOf count_of(std::string_view word);

// "Float" -> "float32"
std::string dtype_word(std::string_view dtype);

}  // namespace xpurun::report
