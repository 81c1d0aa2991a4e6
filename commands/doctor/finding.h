// The result of one check of `xpurun doctor`: grade, observation, loss and remedy. Plain data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

enum class Grade {
  ok,
  none,  // there is nothing to check here, and nothing is lost
  warn,  // a feature is lost
  fail,  // xpurun cannot do its main work here
};

struct Finding {
  std::string check;  // "ptrace"
  Grade grade = Grade::ok;
  std::string text;    // the observation, one sentence without final full stop
  std::string lost;    // empty unless warn or fail
  std::string remedy;  // one command or change; empty if there is none
};

using Findings = std::vector<Finding>;

std::string_view name_of(Grade grade);

}  // namespace xpurun::launcher
