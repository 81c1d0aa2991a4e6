// TracedNames: the functions whose calls the Python programs of the job trace now, and why some of them are
// not traced. Pure.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/timing/trace_problem.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

// Whether a rank has followed the latest change of the list.
enum class FollowsList {
  yes,
  pending,  // no span has ended since
  no_spans  // it has no memory for spans, so it learns of no change
};

struct TracedState {
  struct Function {
    std::string name;
    std::optional<model::TraceProblem> problem;  // empty: none is known
  };
  struct OfRank {
    base::Rank rank = base::kNoRank;
    FollowsList follows = FollowsList::yes;
  };
  std::vector<Function> functions;
  std::vector<OfRank> ranks;
};

class TracedNames {
 public:
  // The names at the start of the job, separated by commas. "?" before a name: the program may lack it.
  explicit TracedNames(const std::string& names);

  // Names in the form of `--trace-python`. Nothing changes on an error.
  base::Status add(const std::vector<std::string>& names);
  base::Status remove(const std::vector<std::string>& names);
  // A rank reports why it does not trace a function. Returns whether the report is new.
  bool note(const model::UntracedFunction& function);

  std::string text() const;  // with commas
  std::vector<TracedState::Function> functions() const;

 private:
  std::vector<std::string> names_;
  std::map<std::string, model::TraceProblem> problems_;
};

}  // namespace xpurun::launcher
