// Repeater: repeats the ranks' output on one of xpurun's streams. Used by the thread of its sink only. Writes
// block, as the rank's own writes would without xpurun. After a permanent failure it reports once and stops.
#pragma once

#include "launcher/relay/line_labels.h"
#include "launcher/relay/sink.h"

#include <atomic>
#include <functional>
#include <string>

namespace xpurun::launcher {

enum class LinePrefix { none, rank };

class Repeater {
 public:
  Repeater(int target, LinePrefix prefix, std::function<void(const std::string&)> complain)
      : target_(target), prefix_(prefix), complain_(std::move(complain)) {}

  void write(const Output& output);
  // Stops repeating. Any thread.
  void stop() { stopped_ = true; }

 private:
  int target_;
  LinePrefix prefix_;
  std::function<void(const std::string&)> complain_;
  LineLabels labels_;
  std::atomic<bool> stopped_ = false;
  bool complained_ = false;
};

}  // namespace xpurun::launcher
