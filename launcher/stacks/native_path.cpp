#include "launcher/stacks/native_path.h"

#include "common/model/frame_text.h"
#include "report/tree/roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace xpurun::launcher {

using stackdump::SampledFrame;

namespace {

constexpr std::string_view kAten = "aten::";
constexpr std::string_view kAutograd = "autograd: ";

template <size_t N>
bool starts_with_one(std::string_view text, const std::string_view (&beginnings)[N]) {
  return std::any_of(std::begin(beginnings), std::end(beginnings),
                     [&](std::string_view b) { return text.starts_with(b); });
}

// PyTorch's own functions, not those of the libraries that are linked into it (MKL, oneDNN).
bool is_of_torch(const model::Frame& f, bool unnamed) {
  static constexpr std::string_view kLibraries[] = {"libtorch", "libc10", "_C."};
  static constexpr std::string_view kNames[] = {
      "at::",  "c10::",      "torch::",           "caffe2::",  "THP",
      "std::", "pybind11::", "non-virtual thunk", "(anonymous"};
  return starts_with_one(f.module, kLibraries) && (unnamed || starts_with_one(f.func, kNames));
}

// "at::_ops::mm::call" and "at::_ops::mm::redispatch" -> "aten::mm".
std::string aten_name(std::string_view function) {
  constexpr std::string_view kOperations = "at::_ops::";
  if (!function.starts_with(kOperations)) {
    return {};
  }
  function.remove_prefix(kOperations.size());
  return fmt::format("{}{}", kAten, function.substr(0, function.find("::")));
}

// "torch::autograd::generated::MmBackward0::apply" -> "autograd: MmBackward0".
std::string node_name(std::string_view function) {
  constexpr std::string_view kNamespace = "torch::autograd::";
  constexpr std::string_view kApply = "::apply";
  if (!function.starts_with(kNamespace) || !function.ends_with(kApply)) {
    return {};
  }
  function.remove_suffix(kApply.size());
  return fmt::format("{}{}", kAutograd, function.substr(function.rfind(':') + 1));
}

// Empty: the frame says nothing about the program.
std::string native_name(const model::Frame& f) {
  if (report::frame_group(f) == report::FrameGroup::interpreter) {
    return {};
  }
  for (std::string name : {aten_name(f.func), node_name(f.func)}) {
    if (!name.empty()) {
      return name;
    }
  }
  const bool unnamed = f.func == fmt::format("{}+{:#x}", f.module, f.offset);
  return is_of_torch(f, unnamed) ? std::string() : unnamed ? f.module : model::frame_label(f);
}

}  // namespace

std::vector<SampledFrame> native_path(const model::ThreadStack& thread) {
  std::vector<SampledFrame> out;
  std::for_each(thread.frames.rbegin(), thread.frames.rend(), [&](const model::Frame& f) {
    if (f.kind == model::FrameKind::python) {
      out.push_back({.function = f.func, .file = f.file, .line = f.line});
    } else if (f.kind == model::FrameKind::native) {
      std::string name = native_name(f);
      const bool again = !out.empty() && out.back().file.empty() && out.back().function == name;
      if (!name.empty() && !again) {
        out.push_back({.function = std::move(name)});
      }
    }
  });
  return out;
}

bool runs_program(const std::vector<SampledFrame>& path) {
  return std::any_of(path.begin(), path.end(), [](const SampledFrame& f) {
    return !f.file.empty() || f.function.starts_with(kAten) || f.function.starts_with(kAutograd);
  });
}

}  // namespace xpurun::launcher
