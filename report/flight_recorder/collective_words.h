// The words of model::CollectiveCall for the names that torch's process groups use.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::report {

// "_all_gather_base" -> "all_gather", "all_reduce_barrier" -> "barrier"; an unknown name stays as it is.
std::string op_word(std::string_view op);

// Whose size is the count that the program passed: of most operations the input's.
enum class CountOf { input, output };
CountOf count_of(std::string_view word);

// "Float" -> "float32"
std::string dtype_word(std::string_view dtype);

}  // namespace xpurun::report
