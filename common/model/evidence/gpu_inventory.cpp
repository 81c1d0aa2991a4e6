#include "common/model/evidence/gpu_inventory.h"

#include "common/model/json_visitors.h"

#include <algorithm>
#include <cctype>

namespace xpurun::model {

namespace {

constexpr std::string_view kGpu = "GPU ";

}  // namespace

template <typename V, Self<GpuUnit> U>
void fields(V& visit, U& u) {
  visit("index", u.index);
  visit("uuid", u.uuid);
  visit("name", u.name, WhenEmpty::omit);
  visit("serial", u.serial, WhenEmpty::omit);
  visit("pci", u.pci, WhenEmpty::omit);
  visit.optional("power_limit_w", u.power_limit_w);
  visit.optional("power_default_w", u.power_default_w);
  visit.optional("sm_clock_max_mhz", u.sm_clock_max_mhz);
  visit.optional("pcie_width", u.pcie_width);
  visit.optional("pcie_width_max", u.pcie_width_max);
  visit.optional("pcie_generation_max", u.pcie_generation_max);
  visit.optional("nvlinks", u.nvlinks);
  visit.optional("persistence", u.persistence);
  visit.optional("mig", u.mig);
  visit.optional("ecc", u.ecc);
  visit.optional("temperature_most_c", u.temperature_most_c);
  visit("ecc_corrected_ever", u.ecc_corrected_ever);
  visit("ecc_uncorrected_ever", u.ecc_uncorrected_ever);
  visit("rows_corrected", u.rows_corrected);
  visit("rows_uncorrected", u.rows_uncorrected);
}

template <typename V, Self<GpuPath> P>
void fields(V& visit, P& p) {
  visit("from", p.from);
  visit("to", p.to);
  visit("path", p.path);
}

template <typename V, Self<GpuInventory> I>
void fields(V& visit, I& i) {
  visit("units", i.units);
  visit("paths", i.paths, WhenEmpty::omit);
}

nlohmann::ordered_json to_json(const GpuInventory& inventory) {
  return write_object(kGpuInventorySchema, inventory);
}

base::Result<GpuInventory> gpu_inventory_from_json(const nlohmann::json& j) {
  return read_object<GpuInventory>(kGpuInventorySchema, "list of GPUs", j);
}

std::string gpu_object(int index) {
  return index < 0 ? "GPU" : fmt::format("{}{}", kGpu, index);
}

int gpu_index_of(std::string_view object) {
  if (!object.starts_with(kGpu)) {
    return -1;
  }
  object.remove_prefix(kGpu.size());
  const auto number = base::parse_int(object.substr(0, object.find(' ')));
  return number && *number >= 0 && *number < 4096 ? static_cast<int>(*number) : -1;
}

std::string kernel_pci(std::string_view nvml) {
  constexpr std::string_view kLongDomain = "0000";
  if (nvml.size() == 16 && nvml.starts_with(kLongDomain)) {
    nvml.remove_prefix(kLongDomain.size());
  }
  std::string out(nvml);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace xpurun::model
