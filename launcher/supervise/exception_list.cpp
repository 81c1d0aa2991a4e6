#include "launcher/supervise/exception_list.h"

#include <algorithm>
#include <utility>

namespace xpurun::launcher {

using model::ExceptionKind;
using model::PythonException;

namespace {

enum class ReportClass { exception, exit, printed, swallowed };

ReportClass class_of(ExceptionKind kind) {
  if (kind == ExceptionKind::unraisable) {
    return ReportClass::printed;
  }
  if (model::is_swallowed(kind)) {
    return ReportClass::swallowed;
  }
  return model::is_exception(kind) ? ReportClass::exception : ReportClass::exit;
}

// The same line of the same process has raised before.
bool is_repeated(const PythonException& before, const PythonException& now) {
  const auto line = [](const PythonException& x) {
    const auto& frames = x.chain.front().frames;
    return frames.empty() ? std::pair<std::string, int>() : std::pair(frames.back().file, frames.back().line);
  };
  return before.kind == now.kind && before.pid == now.pid && !before.chain.empty() && !now.chain.empty() &&
         before.chain.front().type == now.chain.front().type && line(before) == line(now);
}

}  // namespace

bool ExceptionList::wants(ExceptionKind kind, base::Pid pid) const {
  const auto same = [&](const PythonException& x) {
    return x.pid == pid && class_of(x.kind) == class_of(kind);
  };
  // The bootstrap reports few of those that were caught, and the latest ones matter.
  return model::is_swallowed(kind) ||
         static_cast<size_t>(std::count_if(known_.begin(), known_.end(), same)) < kMostOfProcess;
}

void ExceptionList::add(PythonException exception) {
  if (model::is_swallowed(exception.kind)) {
    std::erase_if(known_, [&](const PythonException& x) { return is_repeated(x, exception); });
  }
  std::vector<size_t> same;  // the records of its class
  size_t recent = 0;
  for (size_t i = 0; i < known_.size(); ++i) {
    if (class_of(known_[i].kind) == class_of(exception.kind)) {
      same.push_back(i);
      recent += exception.at_s - known_[i].at_s < kWholeS ? 1 : 0;
    }
  }
  if (recent >= kMostWhole) {
    model::drop_details(exception);
  }
  if (same.size() >= kMostWholeEver) {
    model::drop_details(known_[same[same.size() - kMostWholeEver]]);
  }
  if (same.size() >= kMost) {
    known_.erase(known_.begin() + static_cast<std::ptrdiff_t>(same.front()));
  }
  known_.push_back(std::move(exception));
}

}  // namespace xpurun::launcher
