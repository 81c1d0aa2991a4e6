// What the page says of calls: names, and of each name its details and the work for a rate.
#pragma once

#include "report/events/activity.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

namespace xpurun::report {

class PageNames {
 public:
  // Of a call; of an open one the sequence number is a detail.
  uint32_t index(const Call& call, uint32_t sequence);
  // Columns `names`, `details` (text), `work` (FLOP of a matmul, bytes times the factor of a bus bandwidth;
  // 0: no rate) and `rate` ("TFLOP/s", "GB/s" or empty).
  void put(nlohmann::ordered_json& data) const;

 private:
  struct Texts {
    std::string name;
    std::string details;
    double work = 0;
    std::string rate;

    auto operator<=>(const Texts&) const = default;
  };

  static Texts texts_of(const Call& call, uint32_t sequence);

  std::map<Texts, uint32_t> known_;
};

}  // namespace xpurun::report
