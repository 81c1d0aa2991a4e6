// Repeater: repeats the ranks' output on one of our own streams. Used by the thread of its sink only. Writes
// block as the rank's own would without us; what can never succeed is said once and left.
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
  // From now on nothing is repeated. Any thread.
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
