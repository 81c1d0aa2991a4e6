// xpu_timer's "RRRRR-WWWWW.stacktrace": the protobuf message Stacktrace as plain data. It is imported like
// any other format, and merged in xpu_timer's own grammar (formats/xpu_timer_compat.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

struct XpuFrame {
  std::string func;
  std::string file;  // "x.py:12", "x.c:12", "/lib/x.so", "??"
};

struct XpuThread {
  uint32_t tid = 0;
  uint64_t thread_id = 0;
  std::string name;
  bool active = false;
  bool owns_gil = false;
  std::vector<XpuFrame> frames;  // innermost first
};

struct XpuStacktrace {
  std::vector<XpuThread> native;
  std::vector<XpuThread> python;
  int64_t pid = 0;
  int64_t rank = -1;
  std::string state;   // "S (sleeping)"
  std::string errors;  // messages of its tools
  std::string damage;  // why bytes are missing from some offset on; empty if none are
};

XpuStacktrace parse_xpu_stacktrace(std::string_view bytes);

}  // namespace xpurun::report
