#include "report/timeline/output/xpu_timer_writer.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <protozero/pbf_writer.hpp>
#include <vector>

namespace xpurun::report {

namespace {

using protozero::pbf_writer;

// Of KernelTraces, KernelTrace and HostTrace.
namespace traces {
enum : int { kKernels = 1, kHost = 2, kPid = 3, kRank = 4 };
}
namespace kernel {
enum : int { kType = 1, kCode = 2, kStart = 3, kDuration = 4, kDelay = 5, kId = 6 };
}
namespace host {
enum : int { kStart = 1, kDuration = 2, kName = 3, kCount = 4, kGarbage = 5 };
}

// xpu_timer's kinds of kernels, and the field of KernelTrace for what is known about one.
struct Kind {
  uint32_t type;
  int details;
};
constexpr Kind kMatmul{0, 7};
constexpr Kind kCollective{1, 9};
constexpr Kind kMemory{2, 10};

std::optional<Kind> kind_of(const Call& call) {
  switch (call.category) {
    case Category::matmul:
      return kMatmul;
    case Category::collective:
      return call.open ? std::nullopt : std::optional(kCollective);
    case Category::memory:
      return kMemory;
    default:
      return std::nullopt;
  }
}

template <typename T>
T argument(const std::vector<Argument>& from, std::string_view name, T otherwise) {
  for (const Argument& a : from) {
    if (const T* value = std::get_if<T>(&a.value); value != nullptr && a.name == name) {
      return *value;
    }
  }
  return otherwise;
}

// Of the call, else of the slice alone.
template <typename T>
T argument(const Activity& activity, const Slice& slice, std::string_view name) {
  return argument(activity.calls[slice.call].arguments, name,
                  argument(activity.extras[slice.extra], name, T()));
}

// b, m, n, k of "4096x1024x512" or "8 x 4096x1024x512".
std::optional<std::array<uint32_t, 4>> shape_of(std::string_view text) {
  std::array<uint32_t, 4> out{1, 0, 0, 0};
  std::vector<uint32_t> numbers;
  for (const std::string_view word : base::split(text, 'x')) {
    const auto number = base::parse_int(base::trim(word));
    if (!number || *number < 0 || *number > UINT32_MAX) {
      return std::nullopt;
    }
    numbers.push_back(static_cast<uint32_t>(*number));
  }
  if (numbers.size() != 3 && numbers.size() != 4) {
    return std::nullopt;
  }
  std::copy(numbers.begin(), numbers.end(), out.end() - static_cast<std::ptrdiff_t>(numbers.size()));
  return out;
}

void put_text(pbf_writer& w, int field, const std::string& text) {
  if (!text.empty()) {
    w.add_string(static_cast<protozero::pbf_tag_type>(field), text);
  }
}

// xpu_timer knows functions without the ending of 64-bit interfaces.
std::string function_of(const Call& call) {
  return call.function.ends_with("_64") ? call.function.substr(0, call.function.size() - 3) : call.function;
}

std::string matmul_details(const Activity& activity, const Slice& slice) {
  std::string out;
  pbf_writer w(out);
  const auto shape = shape_of(argument<std::string>(activity, slice, "shape"));
  if (shape) {
    w.add_packed_uint32(1, shape->begin(), shape->end());
  }
  put_text(w, 2, argument<std::string>(activity, slice, "dtype"));
  put_text(w, 3, argument<std::string>(activity, slice, "transposes"));
  put_text(w, 7, function_of(activity.calls[slice.call]));
  return out;
}

uint64_t communicator_of(const std::string& text) {
  uint64_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out, 16);
  return out;
}

std::string collective_details(const Activity& activity, const Slice& slice) {
  const Call& call = activity.calls[slice.call];
  std::string out;
  pbf_writer w(out);
  w.add_uint64(3, communicator_of(argument<std::string>(activity, slice, "communicator")));
  w.add_uint64(4, call.work);
  put_text(w, 5, argument<std::string>(activity, slice, "dtype"));
  w.add_uint32(6, static_cast<uint32_t>(argument<int64_t>(activity, slice, "communicator_size")));
  w.add_uint64(8, slice.sequence);
  const double factor = call.bus_factor > 0 ? call.bus_factor : 1;
  w.add_uint64(9, static_cast<uint64_t>(std::llround(static_cast<double>(call.work) * factor)));
  const std::string function = function_of(call);
  w.add_uint32(10, function == "ncclSend" ? 1 : function == "ncclRecv" ? 2 : 0);
  return out;
}

std::string memory_details(const Activity& activity, const Slice& slice) {
  std::string out;
  pbf_writer w(out);
  w.add_uint64(1, activity.calls[slice.call].work);
  put_text(w, 2, argument<std::string>(activity, slice, "direction"));
  return out;
}

std::string details_of(const Activity& activity, const Slice& slice) {
  switch (activity.calls[slice.call].category) {
    case Category::matmul:
      return matmul_details(activity, slice);
    case Category::collective:
      return collective_details(activity, slice);
    default:
      return memory_details(activity, slice);
  }
}

// In a line of the meta file a comma ends the number, and a name is unique.
std::string name_of(const Call& call) {
  std::string out = call.name;
  if (const auto shape = shape_of(argument(call.arguments, "shape", std::string())); shape) {
    out = fmt::format("{}_{}", (*shape)[0] > 1 ? "bmm_bmnk" : "mm_bmnk", fmt::join(*shape, "_"));
  }
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == ',' || c == '\n'; }, ' ');
  return out;
}

// The programs of xpu_timer divide by the duration.
uint32_t duration_us(const Slice& slice) {
  return static_cast<uint32_t>(std::clamp<int64_t>(slice.duration_ns / 1'000, 1, UINT32_MAX));
}

// One rank.
class RankFile {
 public:
  RankFile(const Activity& activity, int64_t shift_ns)
      : activity_(activity), shift_ns_(shift_ns), writer_(out_.timeline) {}

  void add_kernel(const Slice& slice, const Kind& kind, const std::string& details) {
    const Call& call = activity_.calls[slice.call];
    const uint32_t code = code_of(name_of(call));
    ++out_.slices;
    pbf_writer k(writer_, traces::kKernels);
    k.add_uint32(kernel::kType, kind.type);
    k.add_uint32(kernel::kCode, code);
    k.add_uint64(kernel::kStart, start_us(slice));
    k.add_uint32(kernel::kDuration, duration_us(slice));
    k.add_uint32(kernel::kDelay, slice.delay_us);
    k.add_uint64(kernel::kId, ++calls_[code]);
    k.add_message(static_cast<protozero::pbf_tag_type>(kind.details), details);
  }

  void add_python(const Slice& slice) {
    const Call& call = activity_.calls[slice.call];
    const bool garbage = call.stage == model::Stage::garbage;
    const std::string name = garbage ? "GC" : name_of(call);
    ++out_.slices;
    pbf_writer h(writer_, traces::kHost);
    h.add_uint64(host::kStart, start_us(slice));
    h.add_uint32(host::kDuration, duration_us(slice));
    h.add_string(host::kName, name);
    h.add_uint32(host::kCount, ++host_calls_[name]);
    if (garbage) {
      pbf_writer g(h, host::kGarbage);
      g.add_uint32(1, static_cast<uint32_t>(argument<int64_t>(activity_, slice, "collected")));
    }
  }

  XpuTimerFiles finish() {
    writer_.add_uint32(traces::kPid, static_cast<uint32_t>(std::max(activity_.pid, 0)));
    writer_.add_uint32(traces::kRank, static_cast<uint32_t>(std::max(activity_.rank, 0)));
    for (const auto& [name, code] : codes_) {
      out_.meta += fmt::format("{},xpu_timer_{}\n", code, name);
    }
    for (const auto& [name, calls] : host_calls_) {
      out_.meta += fmt::format("xpu_timer_host_trace,{}\n", name);
    }
    return std::move(out_);
  }

 private:
  uint64_t start_us(const Slice& slice) const {
    return static_cast<uint64_t>(std::max<int64_t>(slice.begin_ns + shift_ns_, 0)) / 1'000;
  }
  uint32_t code_of(const std::string& name) {
    return codes_.emplace(name, static_cast<uint32_t>(codes_.size() + 1)).first->second;
  }

  const Activity& activity_;
  int64_t shift_ns_;
  XpuTimerFiles out_;
  pbf_writer writer_;
  std::map<std::string, uint32_t> codes_;
  std::map<uint32_t, uint64_t> calls_;  // by code
  std::map<std::string, uint32_t> host_calls_;
};

}  // namespace

XpuTimerFiles XpuTimerWriter::add(const Activity& activity, int64_t shift_ns) {
  RankFile file(activity, shift_ns);
  uint64_t left_out = 0;
  for (const Slice& slice : activity.slices) {
    const Call& call = activity.calls[slice.call];
    if (call.category == Category::python && !call.open) {
      file.add_python(slice);
      continue;
    }
    const auto kind = kind_of(call);
    if (!kind) {
      ++left_out;
      continue;
    }
    const std::string details = details_of(activity, slice);
    file.add_kernel(slice, *kind, details);
    if (call.category == Category::matmul && call.work > 0) {
      // As xpu_timer rounds.
      const double tflops = static_cast<double>(call.work) / duration_us(slice) / 1e6;
      matmuls_[activity.rank][details].push_back(std::round(tflops * 100) / 100);
    }
  }
  XpuTimerFiles out = file.finish();
  out.left_out = left_out;
  return out;
}

std::string XpuTimerWriter::matmuls() const {
  std::string out;
  pbf_writer w(out);
  for (const auto& [rank, problems] : matmuls_) {
    pbf_writer entry(w, 1);
    entry.add_int64(1, rank);
    pbf_writer infos(entry, 2);
    for (const auto& [details, tflops] : problems) {
      pbf_writer info(infos, 1);
      info.add_message(1, details);
      info.add_packed_double(2, tflops.begin(), tflops.end());
    }
  }
  return out;
}

std::string xpu_timer_name(base::Rank rank, int world_size) {
  return fmt::format("{:05}-{:05}.timeline", rank, world_size);
}

}  // namespace xpurun::report
