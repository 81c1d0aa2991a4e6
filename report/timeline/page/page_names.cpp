#include "report/timeline/page/page_names.h"

#include "common/base/clock.h"
#include "common/base/strings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

namespace xpurun::report {

namespace {

constexpr std::array<std::string_view, 12> kDetails{"transposes", "flop",     "bytes",    "count",
                                                    "algorithm",  "protocol", "channels", "direction",
                                                    "root",       "peer",     "place",    "group"};
// Of an open call, with the words for them.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kOpenDetails{
    {{"communicator_name", "group"},
     {"communicator_rank", "rank in it"},
     {"communicator_size", "of"},
     {"progress", "stage"}}};

std::string text_of(std::string_view name, const Argument& argument) {
  return std::visit([&](const auto& value) { return fmt::format("{} {}", name, value); }, argument.value);
}

}  // namespace

PageNames::Texts PageNames::texts_of(const Call& call, const Slice& slice) {
  Texts out{.name = call.name};
  const auto word_of = [&](const std::string& name) -> std::string_view {
    if (std::find(kDetails.begin(), kDetails.end(), name) != kDetails.end()) {
      return name;
    }
    const auto* open = std::find_if(kOpenDetails.begin(), kOpenDetails.end(),
                                    [&](const auto& detail) { return call.open && detail.first == name; });
    return open == kOpenDetails.end() ? std::string_view() : open->second;
  };
  for (const Argument& argument : call.arguments) {
    if (const std::string_view word = word_of(argument.name); !word.empty()) {
      out.details += (out.details.empty() ? "" : ", ") + text_of(word, argument);
    }
  }
  if (call.open) {
    out.details += fmt::format("{}call {}, open for {}", out.details.empty() ? "" : ", ", slice.sequence,
                               base::human_duration(base::ns_to_s(slice.end_ns() - slice.begin_ns)));
  } else if (call.category == Category::matmul && call.work > 0) {
    out.work = static_cast<double>(call.work) / 1e12;
    out.rate = "TFLOP/s";
  } else if (call.category == Category::collective && call.bus_factor > 0) {
    out.work = static_cast<double>(call.work) * call.bus_factor / 1e9;
    out.rate = "GB/s";
  } else if (call.category == Category::memory && call.work > 0) {
    out.work = static_cast<double>(call.work) / 1e9;
    out.rate = "GB/s";
  }
  return out;
}

uint32_t PageNames::index(const Call& call, const Slice& slice) {
  return known_.emplace(texts_of(call, slice), static_cast<uint32_t>(known_.size())).first->second;
}

void PageNames::put(nlohmann::ordered_json& data) const {
  std::vector<const Texts*> in_order(known_.size());
  for (const auto& [texts, index] : known_) {
    in_order[index] = &texts;
  }
  for (const char* column : {"names", "calls", "details", "work", "rate"}) {
    data[column] = nlohmann::ordered_json::array();
  }
  for (uint32_t index = 0; index < in_order.size(); ++index) {
    const Texts* texts = in_order[index];
    const auto calls = calls_.find(index);
    data["names"].push_back(texts->name);
    data["calls"].push_back(calls == calls_.end() ? 0 : calls->second);
    data["details"].push_back(texts->details);
    data["work"].push_back(texts->work);
    data["rate"].push_back(texts->rate);
  }
}

}  // namespace xpurun::report
