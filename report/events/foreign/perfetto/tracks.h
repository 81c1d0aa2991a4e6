// The processes and rows of a Perfetto trace, and its packets one after the other. Untrusted.
#pragma once

#include "report/events/foreign/checked_pbf.h"
#include "report/events/record_owner.h"

#include <cstdint>
#include <streambuf>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace xpurun::report {

// The packets of a trace. One is in memory at a time.
class PerfettoPackets {
 public:
  explicit PerfettoPackets(std::streambuf& text) : text_(text) {}

  // False at the end. The bytes are valid until the next call.
  bool next(std::string_view& packet);
  // The end came in the middle of a packet, or what follows is no packet.
  bool damaged() const { return damaged_; }

 private:
  bool varint(uint64_t& out);
  bool skip(uint64_t bytes);

  std::streambuf& text_;
  std::string packet_;
  bool damaged_ = false;
};

// A row, or the process around rows.
struct PerfettoTrack {
  uint64_t parent = 0;
  std::string name;
  bool is_process = false;
  int64_t pid = 0;  // of a process, or of the process of a thread
  int64_t tid = 0;  // of a thread
  std::string label;
  bool is_counter = false;
  std::string unit;
};

// Filled by the descriptors in a trace.
class PerfettoTracks {
 public:
  void add(CheckedPbf descriptor);
  const PerfettoTrack* find(uint64_t uuid) const;
  // Of the process to which the row belongs; the first number of a process without a descriptor is its pid.
  // 0: none.
  uint64_t process_of(uint64_t uuid) const;
  // The processes in the order of their descriptors.
  const std::vector<uint64_t>& processes() const { return processes_; }
  RecordOwner owner_of(uint64_t process) const;
  // Of the title; empty: unknown.
  std::string gpu_of(uint64_t process) const;

 private:
  std::unordered_map<uint64_t, PerfettoTrack> tracks_;
  std::vector<uint64_t> processes_;
  std::unordered_map<int64_t, uint64_t> by_pid_;
};

}  // namespace xpurun::report
