#include "report/events/foreign/perfetto/call.h"

#include "common/base/strings.h"
#include "common/model/timing/op_names.h"
#include "report/events/foreign/operation_names.h"
#include "report/events/op_facts.h"

#include <algorithm>
#include <bit>
#include <optional>

namespace xpurun::report {

namespace {

template <typename T>
T value_of(const std::vector<Argument>& from, std::string_view name, T otherwise) {
  const auto found =
      std::find_if(from.begin(), from.end(), [name](const Argument& a) { return a.name == name; });
  const T* value = found == from.end() ? nullptr : std::get_if<T>(&found->value);
  return value == nullptr ? otherwise : *value;
}

std::string text_in(const std::vector<Argument>& from, std::string_view name) {
  return value_of<std::string>(from, name, "");
}

int64_t number_in(const std::vector<Argument>& from, std::string_view name, int64_t otherwise = 0) {
  return value_of<int64_t>(from, name, otherwise);
}

// "4096x1024x512", "8 x 4096x1024x512"
void set_shape(model::EventKey& key, std::string_view text) {
  std::vector<int64_t> sizes;
  for (const std::string_view word : base::split(text, 'x')) {
    const auto number = base::parse_int(base::trim(word));
    if (!number || *number < 0 || *number > UINT32_MAX) {
      return;
    }
    sizes.push_back(*number);
  }
  if (sizes.size() != 3 && sizes.size() != 4) {
    return;
  }
  key.batch = sizes.size() == 4 ? static_cast<uint32_t>(sizes.front()) : 1;
  key.m = sizes[sizes.size() - 3];
  key.n = sizes[sizes.size() - 2];
  key.k = sizes[sizes.size() - 1];
}

uint8_t transposes_of(std::string_view letters) {
  const auto number = [&](size_t at) -> unsigned {
    return at >= letters.size() ? 0 : letters[at] == 'T' ? 1 : letters[at] == 'C' ? 2 : 0;
  };
  return static_cast<uint8_t>(number(0) | number(1) << 4U);
}

uint8_t copy_of(std::string_view direction) {
  return direction == "H2D" ? 1 : direction == "D2H" ? 2 : direction == "D2D" ? 3 : 0;
}

void set_communicator(Activity& activity, Call& call) {
  const std::string text = text_in(call.arguments, "communicator");
  const int64_t size = number_in(call.arguments, "communicator_size");
  const auto identity = base::parse_hex(text);
  if (!identity || size < 1 || size >= base::kHighestRank) {
    return;
  }
  call.communicator = communicator_of(activity, *identity, static_cast<int>(size));
  Communicator& c = activity.communicators[static_cast<size_t>(call.communicator)];
  const int64_t rank = number_in(call.arguments, "communicator_rank", -1);
  c.rank = rank >= 0 && rank < size ? static_cast<int>(rank) : -1;
  c.name = text_in(call.arguments, "communicator_name");
}

void describe_collective(Activity& activity, Call& call, std::string_view source) {
  const std::string& function = call.function.empty() ? call.name : call.function;
  call.message = is_message(function);
  (void)set_collective(call.key, function);
  call.key.k = std::max<int64_t>(number_in(call.arguments, "count"), 0);
  call.key.dtype[0] = type_byte(nccl_type(text_in(call.arguments, "dtype")));
  for (const char* name : {"peer", "root"}) {
    const int64_t peer = number_in(call.arguments, name, -1);
    call.key.peer = peer >= 0 && peer < base::kHighestRank ? static_cast<int32_t>(peer) : call.key.peer;
  }
  set_communicator(activity, call);
  if (call.communicator >= 0) {
    const Communicator& c = activity.communicators[static_cast<size_t>(call.communicator)];
    const std::string_view name = model::collective_name(call.key);
    call.bus_factor = model::bus_factor(name, c.size);
    call.ends_together = !call.open && !call.begin_on_host && ends_together(name) &&
                         (source == "events" || source == "nccl_profiler");
  }
}

}  // namespace

Category category_of_perfetto(std::string_view name) {
  // xpu_timer's names.
  return name == "nccl" ? Category::collective
         : name == "device_memory" || name == "host_memory"
             ? Category::memory
             : model::from_name<Category>(name).value_or(Category::python);
}

Call call_of_perfetto(Activity& activity, std::string name, Category category,
                      std::vector<Argument> arguments) {
  Call out{.name = std::move(name), .category = category, .arguments = std::move(arguments)};
  const std::vector<Argument>& given = out.arguments;
  const std::string source = text_in(given, "source");
  out.key = key_of_category(category);
  out.function = text_in(given, "function");
  if (!out.function.empty()) {
    out.key.api = model::api_number(out.function);
  }
  out.captured = source == "cupti";
  out.open = number_in(given, "not_finished") != 0;
  out.begin_on_host = number_in(given, "begin_is_host") != 0;
  const int64_t work = number_in(given, category == Category::matmul ? "flop" : "bytes");
  const bool is_python = category == Category::python;
  out.work = is_python ? 0 : static_cast<uint64_t>(std::max<int64_t>(work, 0));
  switch (category) {
    case Category::matmul:
      set_shape(out.key, text_in(given, "shape"));
      std::fill(std::begin(out.key.dtype), std::end(out.key.dtype),
                type_byte(cuda_type(text_in(given, "dtype"))));
      out.key.trans = transposes_of(text_in(given, "transposes"));
      break;
    case Category::collective:
      describe_collective(activity, out, source);
      break;
    case Category::memory:
      out.key.copy = copy_of(text_in(given, "direction"));
      out.key.k = out.work == 0 ? 0 : std::bit_width(out.work) - 1;
      break;
    case Category::python:
      out.stage = model::from_name<model::Stage>(text_in(given, "stage")).value_or(model::Stage::other);
      out.place = text_in(given, "place");
      out.group = text_in(given, "group");
      out.message = out.stage == model::Stage::communication && (out.name.find("send") != std::string::npos ||
                                                                 out.name.find("recv") != std::string::npos);
      break;
    default:
      break;
  }
  return out;
}

}  // namespace xpurun::report
