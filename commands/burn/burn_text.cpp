#include "commands/burn/burn_text.h"

#include "commands/analyze/table_text.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace xpurun::launcher {

namespace {

using base::later;
using base::tr;

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

std::string rate_text(const BurnedGpu& gpu, BurnWork work, double unit) {
  const double rate = rate_of(gpu, work);
  return rate < 0 ? std::string() : fmt::format("{:.{}f}", rate / unit, rate / unit < 100 ? 1 : 0);
}

std::string number_text(double value) {
  return value < 0 ? std::string() : fmt::format("{:.0f}", value);
}

std::string result_text(const Burn& burn, const BurnedGpu& gpu) {
  if (gpu.bad_copies > 0) {
    return tr("wrong");
  }
  switch (results_of(burn, gpu)) {
    case BurnResults::none:
      return "";
    case BurnResults::equal:
      return tr("equal");
    case BurnResults::wrong:
      return tr("wrong");
    case BurnResults::unclear:
      break;
  }
  return tr("differ");
}

std::string limits_text(const BurnedGpu& gpu) {
  std::vector<std::string> out;
  for (const model::ThrottleShare& t : gpu.clocks.throttled) {
    if (model::is_throttling(t.reason)) {
      out.push_back(fmt::format("{} {:.0f} %", name_of(t.reason), 100 * t.share));
    }
  }
  return base::join(out, ", ");
}

report::TextTable table_of(const Burn& burn) {
  report::TextTable out{.id = "burn", .title = tr("GPUs"), .about = ""};
  out.columns = {{"GPU", true, 9},
                 {tr("Serial"), false, 4},
                 {"TFLOP/s", true, 9},
                 {tr("Peak %"), true, 6},
                 {tr("Memory GB/s"), true, 8},
                 {tr("To GPU GB/s"), true, 7},
                 {tr("From GPU GB/s"), true, 6},
                 {tr("GPU to GPU GB/s"), true, 7},
                 {"MHz", true, 5},
                 {"W", true, 4},
                 {"C", true, 3},
                 {tr("Limited by"), false, 3},
                 {tr("Results"), false, 8}};
  out.all_rows = burn.gpus.size();
  for (const BurnedGpu& gpu : burn.gpus) {
    const double flops = rate_of(gpu, BurnWork::matmul);
    out.rows.push_back(
        {fmt::format("{}", gpu.unit.index), base::sanitize(gpu.unit.serial),
         rate_text(gpu, BurnWork::matmul, kTera),
         gpu.peak_flops > 0 && flops > 0 ? fmt::format("{:.0f}", 100 * flops / gpu.peak_flops) : "",
         rate_text(gpu, BurnWork::memory, kGiga), rate_text(gpu, BurnWork::to_gpu, kGiga),
         rate_text(gpu, BurnWork::from_gpu, kGiga), rate_text(gpu, BurnWork::peer, kGiga),
         number_text(gpu.clocks.sm_median_mhz), number_text(gpu.clocks.power_w),
         number_text(gpu.clocks.temperature_c), limits_text(gpu), result_text(burn, gpu)});
  }
  return out;
}

// What NVML says counts as a fault if the hardware is broken.
bool is_fault(const report::Finding& found) {
  return found.severity == report::Severity::error;
}

std::string_view name_of_kind(BurnFaultKind kind) {
  switch (kind) {
    case BurnFaultKind::failed:
      return "failed";
    case BurnFaultKind::wrong:
      return "wrong";
    case BurnFaultKind::slow:
      return "slow";
    case BurnFaultKind::below_peak:
      break;
  }
  return "below_peak";
}

nlohmann::ordered_json known(double value) {
  return value < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
}

nlohmann::ordered_json json_of(const Burn& burn, const BurnedGpu& gpu) {
  nlohmann::ordered_json out{{"index", gpu.unit.index},
                             {"uuid", gpu.unit.uuid},
                             {"serial", gpu.unit.serial},
                             {"pci", gpu.unit.pci},
                             {"name", gpu.unit.name}};
  for (size_t w = 0; w < kBurnWorks; ++w) {
    const auto& rates = gpu.rates[w];
    nlohmann::ordered_json one{{"median", known(rate_of(gpu, static_cast<BurnWork>(w)))},
                               {"rounds", rates.size()}};
    if (!rates.empty()) {
      one["lowest"] = *std::min_element(rates.begin(), rates.end());
      one["highest"] = *std::max_element(rates.begin(), rates.end());
    }
    out[std::string(model::name_of(static_cast<BurnWork>(w)))] = std::move(one);
  }
  out["peak_flops"] = gpu.peak_flops > 0 ? nlohmann::ordered_json(gpu.peak_flops) : nlohmann::ordered_json();
  out["power_limit_w"] = known(gpu.unit.power_limit_w);
  out["power_w"] = known(gpu.clocks.power_w);
  out["sm_clock_mhz"] = known(gpu.clocks.sm_median_mhz);
  out["memory_clock_mhz"] = known(gpu.memory_clock_mhz);
  out["temperature_c"] = known(gpu.clocks.temperature_c);
  out["pcie_width"] = known(gpu.unit.pcie_width);
  out["nvlinks"] = known(gpu.unit.nvlinks);
  auto& throttled = out["throttled"] = nlohmann::ordered_json::object();
  for (const model::ThrottleShare& t : gpu.clocks.throttled) {
    throttled[std::string(name_of(t.reason))] = t.share;
  }
  const BurnResults results = results_of(burn, gpu);
  out["results"] = results == BurnResults::none    ? "none"
                   : results == BurnResults::equal ? "equal"
                   : results == BurnResults::wrong ? "wrong"
                                                   : "unclear";
  out["bad_copies"] = gpu.bad_copies;
  out["problem"] = gpu.problem;
  return out;
}

}  // namespace

bool has_faults(const Burn& burn) {
  return !judge_burn(burn).empty() || std::any_of(burn.found.begin(), burn.found.end(), is_fault);
}

std::string burn_text(const Burn& burn, size_t columns) {
  std::string out = table_text(table_of(burn), columns);
  if (burn.bus_bytes_s > 0) {
    out += text_block(
        tr("all_reduce over {} GPUs: {:.0f} GB/s bus bandwidth", burn.gpus.size(), burn.bus_bytes_s / kGiga),
        columns, 0);
  }
  for (const std::string& note : burn.notes) {
    out += text_block(tr("Note: {}", base::sanitize(note)), columns, 0);
  }
  out += '\n';
  for (const BurnFault& fault : judge_burn(burn)) {
    out += text_block(base::sanitize(fault.sentence), columns, 0);
  }
  for (const report::Finding& found : burn.found) {
    out += text_block(
        base::sanitize(found.next.empty() ? found.title : fmt::format("{}: {}", found.title, found.next)),
        columns, 0);
  }
  if (!has_faults(burn)) {
    const bool several = burn.gpus.size() > 1;
    out += text_block(several ? tr("The GPUs work as fast as each other, and with equal results.")
                              : tr("The GPU works, and with equal results."),
                      columns, 0);
  }
  return out;
}

nlohmann::ordered_json to_json(const Burn& burn) {
  nlohmann::ordered_json out{
      {"schema", "xpurun.burn/1"}, {"version", XPURUN_VERSION},
      {"ok", !has_faults(burn)},   {"seconds", burn.seconds},
      {"cublas", burn.cublas},     {"all_reduce_bus_bytes_s", known(burn.bus_bytes_s)}};
  auto& gpus = out["gpus"] = nlohmann::ordered_json::array();
  for (const BurnedGpu& gpu : burn.gpus) {
    gpus.push_back(json_of(burn, gpu));
  }
  auto& faults = out["faults"] = nlohmann::ordered_json::array();
  for (const BurnFault& fault : judge_burn(burn)) {
    faults.push_back({{"kind", name_of_kind(fault.kind)},
                      {"gpu", fault.gpu < 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(fault.gpu)},
                      {"work", model::name_of(fault.work)},
                      {"slower", fault.slower},
                      {"sentence", fault.sentence}});
  }
  auto& found = out["findings"] = nlohmann::ordered_json::array();
  for (const report::Finding& f : burn.found) {
    found.push_back(
        {{"id", f.id}, {"severity", model::name_of(f.severity)}, {"title", f.title}, {"next", f.next}});
  }
  out["notes"] = burn.notes;
  return out;
}

}  // namespace xpurun::launcher
