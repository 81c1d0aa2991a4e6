#include "launcher/spans/traced_names.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {
constexpr size_t kMostTraced = 200;
constexpr size_t kMostProblems = 400;

// Without the mark of a function that the program may lack.
std::string_view plain(std::string_view name) {
  return name.substr(name.starts_with('?') ? 1 : 0);
}

auto find_name(std::vector<std::string>& names, std::string_view wanted) {
  return std::find_if(names.begin(), names.end(),
                      [&](const std::string& name) { return plain(name) == wanted; });
}
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
    if (find_name(all, name) == all.end()) {
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
    if (find_name(names_, name) == names_.end()) {
      return base::fail(fmt::format("{} is not in the list of traced functions", base::sanitize(name)));
    }
  }
  for (const std::string& name : names) {
    names_.erase(find_name(names_, name));
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
    out.push_back({.name = std::string(plain(name)),
                   .problem = problem == problems_.end() ? std::nullopt : std::optional(problem->second)});
  }
  return out;
}

}  // namespace xpurun::launcher
