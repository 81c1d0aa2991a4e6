#include "commands/replay/schedule.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>

namespace xpurun::launcher {

namespace {

using report::Repeated;

constexpr double kLeastBusy = 0.3;  // of a run that mostly waited, more is not imitated
constexpr int kMostOverwrites = 64;

// Calls until their time, with the overwrites, reaches `wanted_ns`.
template <typename Repeat>
base::Status repeat_until(double wanted_ns, int least, int most, int batch, double between_ns,
                          Repeat&& repeat, std::vector<double>& out) {
  double spent_ns = 0;
  while (static_cast<int>(out.size()) < most &&
         (spent_ns < wanted_ns || static_cast<int>(out.size()) < least)) {
    XPURUN_TRY_ASSIGN(const std::vector<double> ns,
                      repeat(std::min(batch, most - static_cast<int>(out.size()))));
    for (const double one : ns) {
      spent_ns += one + between_ns;
      out.push_back(one);
    }
  }
  return {};
}

class MatmulRepeater {
 public:
  MatmulRepeater(const report::RunOperations& run, const Schedule& schedule, MatmulBench& bench,
                 report::Measurements& out)
      : run_(run), schedule_(schedule), bench_(bench), out_(out) {}

  Repeated repeat(const report::RunMatmul& matmul) {
    Repeated out;
    const auto done = try_repeat(matmul, out);
    if (!done) {
      out.ns.clear();
      out.skipped = done.error().what;
    }
    return out;
  }

  void finish() {
    out_.device.sm_clock_mhz = clocks_.empty() ? -1 : static_cast<int>(report::median(clocks_));
  }

 private:
  base::Status try_repeat(const report::RunMatmul& matmul, Repeated& out) {
    const std::string gpu = matmul.ranks.empty() ? "" : run_.ranks[matmul.ranks.front().rank].gpu;
    XPURUN_TRY_ASSIGN(const report::MatmulProblem problem, report::problem_of(matmul, gpu));
    out.tf32 = problem.tf32;
    XPURUN_TRY(bench_.prepare(problem));
    std::vector<double> first;
    int overwrites = 1;
    const auto calls = [&](int count) { return bench_.repeat(count, overwrites); };
    // The first calls load kernels and are slow, so the second batch tells the duration.
    for (int i = 0; i < 2; ++i) {
      XPURUN_TRY_ASSIGN(first, calls(std::max(schedule_.batch / 4, 1)));
    }
    overwrites = overwrites_for(report::median(first), bench_.overwrite_ns(), run_.busy);
    const double between_ns = overwrites * bench_.overwrite_ns();
    std::vector<double> warm_up;
    XPURUN_TRY(repeat_until(is_warm_ ? schedule_.warm_up_ns : schedule_.first_warm_up_ns, 1,
                            is_warm_ ? schedule_.most_calls : 100 * schedule_.most_calls, schedule_.batch,
                            between_ns, calls, warm_up));
    is_warm_ = true;
    XPURUN_TRY(repeat_until(schedule_.measured_ns, schedule_.least_calls, schedule_.most_calls,
                            schedule_.batch, between_ns, calls, out.ns));
    if (report::median(out.ns) <= 0) {
      return base::fail("shorter than what the timing events add");
    }
    note_clock(bench_.clock(), out);
    return {};
  }

  void note_clock(const ClockReading& reading, Repeated& out) {
    out.sm_clock_mhz = reading.sm_mhz;
    if (reading.sm_mhz >= 0) {
      clocks_.push_back(reading.sm_mhz);
    }
    model::ReplayDevice& device = out_.device;
    device.sm_clock_max_mhz = std::max(device.sm_clock_max_mhz, reading.sm_most_mhz);
    device.temperature_c = std::max(device.temperature_c, reading.temperature_c);
    device.power_w = std::max(device.power_w, reading.power_w);
    for (const model::ThrottleReason reason : reading.throttle_reasons) {
      auto& all = device.throttle_reasons;
      if (std::find(all.begin(), all.end(), reason) == all.end()) {
        all.push_back(reason);
      }
    }
  }

  const report::RunOperations& run_;
  const Schedule& schedule_;
  MatmulBench& bench_;
  report::Measurements& out_;
  std::vector<double> clocks_;
  bool is_warm_ = false;
};

}  // namespace

int overwrites_for(double call_ns, double overwrite_ns, double busy) {
  if (busy <= 0 || overwrite_ns <= 0) {
    return 1;
  }
  const double share = std::clamp(busy, kLeastBusy, 1.0);
  const double wanted = call_ns * (1 - share) / share / overwrite_ns;
  return std::clamp(static_cast<int>(std::lround(wanted)), 1, kMostOverwrites);
}

void repeat_matmuls(const report::RunOperations& run, size_t most, const Schedule& schedule,
                    MatmulBench& bench, report::Measurements& out, const OperationDone& done) {
  MatmulRepeater repeater(run, schedule, bench, out);
  for (size_t i = 0; i < std::min(most, run.matmuls.size()); ++i) {
    out.matmuls.push_back(repeater.repeat(run.matmuls[i]));
    done();
  }
  repeater.finish();
}

void repeat_collectives(const report::RunOperations& run, size_t most, const Schedule& schedule,
                        CollectiveBench& bench, report::Measurements& out, const OperationDone& done) {
  out.devices = bench.devices();
  for (size_t i = 0; i < std::min(most, run.collectives.size()); ++i) {
    Repeated& to = out.collectives.emplace_back();
    const auto repeated = [&]() -> base::Status {
      XPURUN_TRY_ASSIGN(const auto problem, report::problem_of(run.collectives[i], bench.devices()));
      XPURUN_TRY(bench.prepare(problem));
      const auto calls = [&bench](int count) { return bench.repeat(count); };
      std::vector<double> warm_up;
      XPURUN_TRY(
          repeat_until(schedule.warm_up_ns / 4, 5, schedule.most_calls, schedule.batch, 0, calls, warm_up));
      return repeat_until(schedule.measured_ns / 4, schedule.least_calls, schedule.most_calls, schedule.batch,
                          0, calls, to.ns);
    }();
    if (!repeated) {
      to.ns.clear();
      to.skipped = repeated.error().what;
    }
    done();
  }
}

}  // namespace xpurun::launcher
