// Families: builds the text of an exposition. Both formats demand that the samples of one family stand
// together, so samples may be added in any order and are grouped here.
#pragma once

#include "launcher/collect/rank_timing.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace xpurun::launcher {

enum class MetricsFormat { prometheus, openmetrics };

// Label values are escaped. Names are constants and are not.
using Labels = std::vector<std::pair<std::string_view, std::string>>;

enum class FamilyType { counter, gauge, histogram, info };

class Families {
 public:
  explicit Families(MetricsFormat format) : format_(format) {}

  // `name` without _total, _bucket or _info. The value of an info family is always 1.
  void add(std::string_view name, FamilyType type, std::string_view help, const Labels& labels, double value);
  // Prints as an integer, as readers of the XPU_TIMER_* family expect.
  void add_integer(std::string_view name, std::string_view help, const Labels& labels, uint64_t value);
  void add(std::string_view name, std::string_view help, const Labels& labels, const Histogram& histogram);

  std::string text() const;

 private:
  struct Family {
    FamilyType type;
    std::string help;
    std::string samples;
  };
  Family& family(std::string_view name, FamilyType type, std::string_view help);

  MetricsFormat format_;
  std::vector<std::string> order_;
  std::map<std::string, Family, std::less<>> families_;
};

}  // namespace xpurun::launcher
