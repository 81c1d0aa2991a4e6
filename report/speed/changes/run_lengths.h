// Bayesian on-line change-point detection (Adams and MacKay): after each value, the probability of every
// number of values since the last change of level. Values are assumed to be normally distributed around an
// unknown level with an unknown spread. At most kMostLengths hypotheses are kept, so a value costs bounded
// time and memory.
#pragma once

#include <cstddef>
#include <vector>

namespace xpurun::report {

class RunLengths {
 public:
  static constexpr size_t kMostLengths = 48;

  // `hazard`: expected number of values between two changes. `level`, `spread`: what is known before the
  // first value.
  RunLengths(double hazard, double level, double spread);

  void add(double value);
  // Probability that the last change is at most `length` values ago.
  double recent(size_t length) const;

 private:
  // One hypothesis: the values of the last `length` steps have one level.
  struct Hypothesis {
    size_t length = 0;
    double probability = 0;
    double level = 0;     // mean of the normal-inverse-gamma distribution
    double weight = 0;    // kappa
    double shape = 0;     // alpha
    double scale = 0;     // beta
    double constant = 0;  // of the predictive density, which depends on the length only
  };
  Hypothesis prior() const;
  void prune();

  double hazard_;
  double level_;
  double spread_;
  std::vector<Hypothesis> hypotheses_;  // shortest first
};

}  // namespace xpurun::report
