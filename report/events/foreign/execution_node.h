// The nodes of an execution trace as slices.
#pragma once

#include "report/events/foreign/left_out.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace xpurun::report {

struct ExecutionNode {
  uint64_t id = 0;
  std::string name;
  std::vector<uint64_t> after;  // nodes on which it depends
  std::optional<double> begin_us;
  double duration_us = -1;  // negative: unknown
  bool on_gpu = false;
  uint32_t row = 0;        // stream or thread
  std::string collective;  // empty: none; else as NCCL names it
  int64_t bytes = 0;       // of a collective or memory operation
  bool memory = false;
  std::string group;  // of ranks
};

class ExecutionNodes {
 public:
  explicit ExecutionNodes(Activity& out) : out_(out) {}

  // Nodes come in an order in which dependencies come first; later ones are not waited for.
  void add(const ExecutionNode& node);
  bool found() const { return nodes_ > 0; }
  bool timed() const { return slices_ > 0; }
  // What is no node.
  void bad(std::string_view text) { left_out_.add(text); }
  // `whole`: the end of the file is there.
  void finish(bool whole) { left_out_.note(out_, whole); }

 private:
  uint32_t call_of(const ExecutionNode& node);
  int64_t placed_ns(const ExecutionNode& node, uint32_t track);

  Activity& out_;
  std::unordered_map<uint64_t, int64_t> ends_;   // by id
  std::unordered_map<uint32_t, int64_t> until_;  // by row of the trace
  std::map<std::tuple<std::string, bool, int64_t, std::string, bool>, uint32_t> calls_;
  LeftOut left_out_;
  size_t nodes_ = 0;
  size_t slices_ = 0;
};

}  // namespace xpurun::report
