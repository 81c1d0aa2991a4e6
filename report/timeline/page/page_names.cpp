#include "report/timeline/page/page_names.h"

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
constexpr std::array<std::string_view, 6> kOpenDetails{
    "communicator", "communicator_name", "communicator_rank", "communicator_size", "progress", "source"};

std::string text_of(const Argument& argument) {
  return std::visit([&](const auto& value) { return fmt::format("{} {}", argument.name, value); },
                    argument.value);
}

}  // namespace

PageNames::Texts PageNames::texts_of(const Call& call, uint32_t sequence) {
  Texts out{.name = call.name};
  const auto wanted = [&](const std::string& name) {
    return std::find(kDetails.begin(), kDetails.end(), name) != kDetails.end() ||
           (call.open && std::find(kOpenDetails.begin(), kOpenDetails.end(), name) != kOpenDetails.end());
  };
  for (const Argument& argument : call.arguments) {
    if (wanted(argument.name)) {
      out.details += (out.details.empty() ? "" : ", ") + text_of(argument);
    }
  }
  if (call.open) {
    out.details += fmt::format(", sequence {}", sequence);
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

uint32_t PageNames::index(const Call& call, uint32_t sequence) {
  return known_.emplace(texts_of(call, sequence), static_cast<uint32_t>(known_.size())).first->second;
}

void PageNames::put(nlohmann::ordered_json& data) const {
  std::vector<const Texts*> in_order(known_.size());
  for (const auto& [texts, index] : known_) {
    in_order[index] = &texts;
  }
  for (const char* column : {"names", "details", "work", "rate"}) {
    data[column] = nlohmann::ordered_json::array();
  }
  for (const Texts* texts : in_order) {
    data["names"].push_back(texts->name);
    data["details"].push_back(texts->details);
    data["work"].push_back(texts->work);
    data["rate"].push_back(texts->rate);
  }
}

}  // namespace xpurun::report
