#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/names.h"
#include "report/render/parts/rank_parts.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace xpurun::report {

using base::later;
using base::tr;
using kainjow::mustache::data;
using model::GpuDevice;
using model::ThrottleReason;

namespace {

std::string_view reason_word(ThrottleReason reason) {
  switch (reason) {
    case ThrottleReason::idle:
      return later("idle");
    case ThrottleReason::application_clocks:
      return later("clocks that were asked for");
    case ThrottleReason::power_cap:
      return later("power limit");
    case ThrottleReason::hardware_slowdown:
      return later("hardware slowdown");
    case ThrottleReason::sync_boost:
      return later("clocks in step with other GPUs");
    case ThrottleReason::thermal:
    case ThrottleReason::hardware_thermal:
      return later("heat");
    case ThrottleReason::power_brake:
      return later("the host's power supply");
    case ThrottleReason::display_clocks:
      return later("display");
  }
  return {};
}

std::string throttle_text(const GpuDevice& d) {
  std::vector<std::string> words;
  for (const ThrottleReason reason : d.throttle_reasons) {
    std::string word = tr(reason_word(reason));
    if (words.empty() || words.back() != word) {
      words.push_back(std::move(word));
    }
  }
  return base::join(words, tr(", "));
}

// "345 of 1980 MHz"; without the maximum where that is unknown, empty where the value is.
std::string of_most(double value, double most, std::string_view unit) {
  if (value < 0) {
    return {};
  }
  return most > 0 ? tr("{:.0f} of {:.0f} {}", value, most, unit) : fmt::format("{:.0f} {}", value, unit);
}

std::string memory_text(const GpuDevice& d) {
  constexpr double kGib = 1 << 30;
  return d.memory_used_bytes < 0 || d.memory_total_bytes <= 0
             ? std::string()
             : tr("{:.1f} of {:.1f} GiB", static_cast<double>(d.memory_used_bytes) / kGib,
                  static_cast<double>(d.memory_total_bytes) / kGib);
}

std::string ecc_text(const GpuDevice& d) {
  std::string out = d.ecc_uncorrected < 0 ? std::string()
                                          : tr("{} uncorrected, {} corrected", d.ecc_uncorrected,
                                               std::max<int64_t>(d.ecc_corrected, 0));
  const std::string_view remap = d.remap_failed    ? later("a row could not be replaced")
                                 : d.remap_pending ? later("a row is replaced at the next reset")
                                                   : "";
  return remap.empty() ? out : out.empty() ? tr(remap) : out + tr(", ") + tr(remap);
}

std::string nvlink_text(const GpuDevice& d) {
  std::vector<std::string> out;
  for (const model::NvLinkErrors& link : d.nvlink) {
    out.push_back(tr("link {}: {} replays, {} recoveries, {} CRC errors", link.link,
                     std::max<int64_t>(link.replays, 0), std::max<int64_t>(link.recoveries, 0),
                     std::max<int64_t>(link.crc, 0)));
  }
  return base::join(out, tr("; "));
}

data gpu_data(const RunReport& report, const GpuDevice& d) {
  data out;
  out.set("gpu", fmt::format("{}", d.index));
  out.set("host", report.run.nodes.empty() ? report.run.host : base::sanitize(host_of(report.run, d.node)));
  out.set("name", base::sanitize(d.name));
  out.set("clock", of_most(d.sm_clock_mhz, d.sm_clock_max_mhz, "MHz"));
  out.set("slowed", throttle_text(d));
  out.set("power", of_most(d.power_w, d.power_limit_w, "W"));
  out.set("temperature", of_most(d.temperature_c, 0, "°C"));
  out.set("memory", memory_text(d));
  out.set("ecc", ecc_text(d));
  out.set("nvlink", nvlink_text(d));
  put_text(out, "problem", base::sanitize(d.problem));
  return out;
}

}  // namespace

void put_gpus(PageData& page, const RunReport& report) {
  data list{data::type::list};
  for (const GpuDevice& d : report.gpus.devices) {
    list.push_back(gpu_data(report, d));
  }
  put_list(page, "gpus", list);
  page.set("gpus_about",
           report.gpus.driver.empty()
               ? tr("At the moment of the dump.")
               : tr("At the moment of the dump; driver {}. Errors count since the driver was loaded.",
                    base::sanitize(report.gpus.driver)));
}

}  // namespace xpurun::report
