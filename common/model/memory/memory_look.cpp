#include "common/model/memory/memory_look.h"

#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "common/model/json_visitors.h"

#include <algorithm>

namespace xpurun::model {

namespace {

constexpr size_t kLongestName = 300;
constexpr size_t kLongestFile = 1000;
constexpr int64_t kMostBytes = int64_t{1} << 50;  // so that sums cannot overflow

void clamp(int64_t& value) {
  value = std::clamp<int64_t>(value, 0, kMostBytes);
}

void make_safe(std::string& text, size_t most) {
  text = base::sanitize(text.substr(0, most));
}

void make_safe(MemoryLook& look) {
  make_safe(look.host, kLongestName);
  make_safe(look.asked_device, kLongestName);
  clamp(look.asked);
  clamp(look.window_us);
  clamp(look.cost_us);
  for (MemoryDevice& device : look.devices) {
    make_safe(device.name, kLongestName);
    for (int64_t* const value : {&device.total, &device.free, &device.reserved, &device.allocated,
                                 &device.peak, &device.unused, &device.largest}) {
      clamp(*value);
    }
  }
  for (MemoryPlace& place : look.places) {
    make_safe(place.file, kLongestFile);
    make_safe(place.function, kLongestName);
  }
  for (MemoryHolder& holder : look.holders) {
    make_safe(holder.device, kLongestName);
    make_safe(holder.name, kLongestName);
    clamp(holder.bytes);
    clamp(holder.count);
    holder.grown = std::clamp<int64_t>(holder.grown, 0, holder.bytes);
    std::erase_if(holder.site, [&](uint32_t index) { return index >= look.places.size(); });
  }
}

}  // namespace

template <typename V, Self<MemoryPlace> P>
void fields(V& visit, P& p) {
  visit("file", p.file);
  visit("line", p.line);
  visit("function", p.function);
}

template <typename V, Self<MemoryHolder> H>
void fields(V& visit, H& h) {
  visit("device", h.device);
  visit("category", h.category);
  visit("name", h.name);
  visit("bytes", h.bytes);
  visit("count", h.count);
  visit("grown", h.grown, WhenEmpty::omit);
  visit("rest", h.rest, WhenEmpty::omit);
  visit("stream", h.stream, WhenEmpty::omit);
  visit("site", h.site, WhenEmpty::omit);
}

template <typename V, Self<MemoryDevice> D>
void fields(V& visit, D& d) {
  visit("name", d.name);
  visit("total", d.total, WhenEmpty::omit);
  visit("free", d.free, WhenEmpty::omit);
  visit("reserved", d.reserved, WhenEmpty::omit);
  visit("allocated", d.allocated);
  visit("peak", d.peak, WhenEmpty::omit);
  visit("unused", d.unused, WhenEmpty::omit);
  visit("largest", d.largest, WhenEmpty::omit);
  visit("expandable", d.expandable, WhenEmpty::omit);
}

template <typename V, Self<MemoryLook> L>
void fields(V& visit, L& l) {
  visit.rank("rank", l.rank);
  visit("pid", l.pid);
  visit("host", l.host);
  visit("at_s", l.at_s);
  visit("why", l.why);
  visit("step", l.step);
  visit("steps", l.steps, WhenEmpty::omit);
  visit("window_us", l.window_us, WhenEmpty::omit);
  visit("request", l.request, WhenEmpty::omit);
  visit("at_ns", l.at_ns);
  visit("wall_ns", l.wall_ns);
  visit("cost_us", l.cost_us);
  visit("errors", l.errors);
  visit("asked", l.asked, WhenEmpty::omit);
  visit("asked_device", l.asked_device, WhenEmpty::omit);
  visit("devices", l.devices);
  visit("places", l.places);
  visit("holders", l.holders);
}

const MemoryDevice* MemoryLook::device(std::string_view name) const {
  const auto found =
      std::find_if(devices.begin(), devices.end(), [&](const MemoryDevice& d) { return d.name == name; });
  return found == devices.end() ? nullptr : &*found;
}

bool is_memory_look(std::string_view json) {
  return json.starts_with(fmt::format(R"({{"schema":"{}")", kMemoryLookSchema));
}

base::Result<MemoryLook> memory_look_from_json(std::string_view json) {
  const nlohmann::json j = parse_json(json);
  if (j.is_discarded()) {
    return base::fail("not valid JSON");
  }
  XPURUN_TRY_ASSIGN(MemoryLook out, read_object<MemoryLook>(kMemoryLookSchema, "look at the memory", j));
  make_safe(out);
  return out;
}

std::string memory_look_json(const MemoryLook& look) {
  nlohmann::ordered_json object = {{"schema", kMemoryLookSchema}};
  JsonWriter writer(object);
  fields(writer, look);
  return json_text(object);
}

}  // namespace xpurun::model
