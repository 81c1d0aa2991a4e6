#include "report/pipeline/jobs/job_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace xpurun::report {

namespace {

using model::JobKind;

constexpr std::array<std::pair<std::string_view, JobKind>, 11> kKnown{{
    {"forward_one_chunk", JobKind::forward},  // torch.distributed.pipelining
    {"backward_one_chunk", JobKind::backward},
    {"backward_weight_one_chunk", JobKind::weight},
    {"forward_step", JobKind::forward},  // Megatron
    {"backward_step", JobKind::backward},
    {"_exec_forward_pass", JobKind::forward},  // DeepSpeed
    {"_exec_backward_pass", JobKind::backward},
    {"_exec_optimizer_step", JobKind::optimizer},
    {"_forward_step", JobKind::forward},  // Paddle
    {"_backward_step", JobKind::backward},
    {"_optimizer_step", JobKind::optimizer},
}};

constexpr std::string_view kMicroBatch = "micro-batch ";
constexpr std::string_view kChunk = " chunk ";

// Takes `head` and the number behind it from the front.
std::optional<int> take_number(std::string_view& text, std::string_view head) {
  int number = -1;
  if (!text.starts_with(head)) {
    return std::nullopt;
  }
  text.remove_prefix(head.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::optional<model::JobKind> kind_of_function(std::string_view name, const JobFunctions& chosen) {
  if (contains(chosen.forward, name)) {
    return JobKind::forward;
  }
  if (contains(chosen.backward, name)) {
    return JobKind::backward;
  }
  const std::string_view last = name.substr(name.find_last_of(".:") + 1);
  const auto known =
      std::find_if(kKnown.begin(), kKnown.end(), [&](const auto& k) { return k.first == last; });
  return known == kKnown.end() ? std::nullopt : std::optional(known->second);
}

std::optional<MarkedBatch> marked_batch(std::string_view name) {
  const auto micro_batch = take_number(name, kMicroBatch);
  if (!micro_batch || name.empty()) {
    return micro_batch ? std::optional(MarkedBatch{*micro_batch, -1}) : std::nullopt;
  }
  const auto chunk = take_number(name, kChunk);
  return chunk && name.empty() ? std::optional(MarkedBatch{*micro_batch, *chunk}) : std::nullopt;
}

}  // namespace xpurun::report
