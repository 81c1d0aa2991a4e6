#include "common/model/timing/trace_problem.h"

#include "common/base/strings.h"
#include "common/model/json_visitors.h"

namespace xpurun::model {

namespace {

constexpr size_t kLongestName = 300;

std::string_view words_of(TraceProblem problem) {
  switch (problem) {
    case TraceProblem::no_module:
      return "the module was not imported";
    case TraceProblem::no_function:
      return "the module has no such function";
    case TraceProblem::not_python:
      return "it is not a function written in Python";
    case TraceProblem::no_tool:
      return "other tools use all of sys.monitoring";
    case TraceProblem::too_old:
      return "asynchronous generators need CPython 3.12";
  }
  return "";
}

}  // namespace

template <typename V, Self<UntracedFunction> F>
void fields(V& visit, F& f) {
  visit("name", f.name);
  visit("problem", f.problem);
}

base::Result<UntracedFunction> untraced_from_message(std::string_view json) {
  const nlohmann::json j = parse_json(json);
  if (j.is_discarded()) {
    return base::fail("not valid JSON");
  }
  XPURUN_TRY_ASSIGN(UntracedFunction out,
                    read_object<UntracedFunction>(kTraceProblemSchema, "report of an untraced function", j));
  out.name = base::sanitize(out.name.substr(0, kLongestName));
  return out;
}

std::string sentence_of(const UntracedFunction& function) {
  return fmt::format("{} is not traced: {}", function.name, words_of(function.problem));
}

}  // namespace xpurun::model
