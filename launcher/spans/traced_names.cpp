#include "launcher/spans/traced_names.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {
constexpr size_t kMostTraced = 200;
constexpr size_t kMostProblems = 400;
}  // namespace

TracedNames::TracedNames(const std::string& names) {
  for (const std::string_view name : base::split(names, ',')) {
    if (!name.empty()) {
      names_.emplace_back(name);
    }
  }
}

base::Status TracedNames::add(const std::vector<std::string>& names) {
  std::vector<std::string> all = names_;
  for (const std::string& name : names) {
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      all.push_back(name);
    }
  }
  if (all.size() > kMostTraced) {
    return base::fail(fmt::format("more than {} functions", kMostTraced));
  }
  for (const std::string& name : names) {
    problems_.erase(name);  // the ranks look again
  }
  names_ = std::move(all);
  return {};
}

base::Status TracedNames::remove(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
      return base::fail(fmt::format("{} is not in the list of traced functions", base::sanitize(name)));
    }
  }
  for (const std::string& name : names) {
    std::erase(names_, name);
    problems_.erase(name);
  }
  return {};
}

bool TracedNames::note(const model::UntracedFunction& function) {
  const auto known = problems_.find(function.name);
  if ((known != problems_.end() && known->second == function.problem) ||
      (known == problems_.end() && problems_.size() >= kMostProblems)) {
    return false;
  }
  problems_[function.name] = function.problem;
  return true;
}

std::string TracedNames::text() const {
  return base::join(names_, ",");
}

std::vector<TracedState::Function> TracedNames::functions() const {
  std::vector<TracedState::Function> out;
  for (const std::string& name : names_) {
    const auto problem = problems_.find(name);
    out.push_back({.name = name,
                   .problem = problem == problems_.end() ? std::nullopt : std::optional(problem->second)});
  }
  return out;
}

}  // namespace xpurun::launcher
