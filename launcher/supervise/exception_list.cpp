#include "launcher/supervise/exception_list.h"

#include <algorithm>
#include <utility>

namespace xpurun::launcher {

using model::ExceptionKind;
using model::PythonException;

namespace {

enum class ReportClass { exception, exit, printed };

ReportClass class_of(ExceptionKind kind) {
  if (kind == ExceptionKind::unraisable) {
    return ReportClass::printed;
  }
  return model::is_exception(kind) ? ReportClass::exception : ReportClass::exit;
}

}  // namespace

bool ExceptionList::wants(ExceptionKind kind, base::Pid pid) const {
  const auto same = [&](const PythonException& x) {
    return x.pid == pid && class_of(x.kind) == class_of(kind);
  };
  return static_cast<size_t>(std::count_if(known_.begin(), known_.end(), same)) < kMostOfProcess;
}

void ExceptionList::add(PythonException exception) {
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
