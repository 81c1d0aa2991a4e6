// ExceptionList: chooses which reports of Python's bootstraps stay in run.json. The number is limited, and
// one kind of reports never displaces another: a rank that forks thousands of children must not hide the
// exception that ends it. Pure.
#pragma once

#include "common/model/exception.h"

#include <cstddef>
#include <vector>

namespace xpurun::launcher {

class ExceptionList {
 public:
  // Records of one class: exceptions that ended a thread, calls that ended a process, exceptions that Python
  // could only print, exceptions that were caught.
  static constexpr size_t kMost = 1000;
  // Of these, those of one process: the first ones. A thread that fails for every batch fails for one reason.
  static constexpr size_t kMostOfProcess = 20;
  // Records of one class with whole tracebacks: the first ones within a time, and of these the latest ones.
  static constexpr size_t kMostWhole = 32;
  static constexpr double kWholeS = 60;
  static constexpr size_t kMostWholeEver = 128;

  // `known` has the records in the order of their arrival.
  explicit ExceptionList(std::vector<model::PythonException>& known) : known_(known) {}

  // Whether add() would keep a record.
  bool wants(model::ExceptionKind kind, base::Pid pid) const;
  // Adds the record, and forgets the oldest of its class if there are too many.
  void add(model::PythonException exception);

 private:
  std::vector<model::PythonException>& known_;
};

}  // namespace xpurun::launcher
