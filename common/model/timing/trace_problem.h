// TraceProblem: why Python's bootstrap does not trace a function that --trace-python names. One message of
// the bootstrap has the schema "xpurun.trace_problem/1". The content comes from the job and is not trusted.
#pragma once

#include "common/base/result.h"
#include "common/model/names.h"

#include <array>
#include <string>
#include <string_view>

namespace xpurun::model {

inline constexpr std::string_view kTraceProblemSchema = "xpurun.trace_problem/1";

enum class TraceProblem {
  no_module,    // was not imported until the end
  no_function,  // the module has no such name
  not_python,   // a class, a value, or a function that is not written in Python
  no_tool,      // other tools use all of sys.monitoring
  too_old,      // an asynchronous generator before CPython 3.12
};
template <>
inline constexpr std::array<std::string_view, 5> kNames<TraceProblem> = {"no_module", "no_function",
                                                                         "not_python", "no_tool", "too_old"};

struct UntracedFunction {
  std::string name;  // "module:function", as the user gave it
  TraceProblem problem = TraceProblem::no_module;
};

base::Result<UntracedFunction> untraced_from_message(std::string_view json);

// "train:colate is not traced: the module has no such function"
std::string sentence_of(const UntracedFunction& function);

}  // namespace xpurun::model
