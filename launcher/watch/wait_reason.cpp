#include "launcher/watch/wait_reason.h"

#include "report/diagnosis/waits/wait_patterns.h"

#include <algorithm>
#include <array>

namespace xpurun::launcher {

using model::OutsideWait;

namespace {

// Servers and event loops, which may wait for any time without being hung.
constexpr std::array<std::string_view, 8> kEventLoops = {"/asyncio/",    "/selectors.py", "/socketserver.py",
                                                         "/asyncore.py", "/tornado/",     "/twisted/",
                                                         "/gevent/",     "/zmq/"};

std::vector<model::Frame> frames_of(const std::vector<stackdump::CodeName>& names) {
  std::vector<model::Frame> out;
  for (const stackdump::CodeName& name : names) {
    model::Frame f;
    f.kind = model::FrameKind::python;
    f.func = name.function;
    f.file = name.file;
    out.push_back(std::move(f));
  }
  return out;
}

bool in_event_loop(const std::vector<stackdump::CodeName>& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const stackdump::CodeName& name) { return is_of_event_loop(name.file); });
}

// A barrier or an event of multiprocessing: used between ranks that multiprocessing started, but also between
// a rank and its own child processes.
bool in_multiprocessing(const std::vector<stackdump::CodeName>& names) {
  return std::any_of(names.begin(), names.end(), [](const stackdump::CodeName& name) {
    return name.file.ends_with("/multiprocessing/synchronize.py");
  });
}

WaitReason by_kernel(const std::vector<stackdump::CodeName>& names, const WaitSigns& signs) {
  switch (signs.kernel) {
    case KernelWaitKind::child:
    case KernelWaitKind::lock:
      return {.target = WaitTarget::helpers};
    case KernelWaitKind::pipes:
      return signs.has_helpers ? WaitReason{.target = WaitTarget::helpers}
                               : WaitReason{.target = WaitTarget::outside, .outside = OutsideWait::input};
    case KernelWaitKind::output:
      return signs.has_helpers ? WaitReason{.target = WaitTarget::helpers} : WaitReason{};
    case KernelWaitKind::input:
      return {.target = WaitTarget::outside, .outside = OutsideWait::input};
    case KernelWaitKind::accept:
      return {.target = WaitTarget::outside, .outside = OutsideWait::connection};
    case KernelWaitKind::events:
      return signs.alone && !signs.has_helpers
                 ? WaitReason{}
                 : WaitReason{.target = WaitTarget::outside, .outside = OutsideWait::event};
    case KernelWaitKind::signal:
      return {.target = WaitTarget::outside, .outside = OutsideWait::signal};
    case KernelWaitKind::sleep:
      return signs.wakes ? WaitReason{.target = WaitTarget::outside, .outside = OutsideWait::polling}
                         : WaitReason{};
    case KernelWaitKind::none:
    case KernelWaitKind::restarted:
    case KernelWaitKind::other:
      break;
  }
  return in_event_loop(names) ? WaitReason{.target = WaitTarget::outside, .outside = OutsideWait::event}
                              : WaitReason{};
}

}  // namespace

bool is_of_event_loop(std::string_view file) {
  return std::any_of(kEventLoops.begin(), kEventLoops.end(),
                     [&](std::string_view piece) { return file.find(piece) != std::string_view::npos; });
}

WaitReason wait_reason(const std::vector<stackdump::CodeName>& innermost_first, const WaitSigns& signs) {
  const auto wait = report::find_wait(frames_of(innermost_first), {.idle = true});
  if (!wait) {
    WaitReason out = by_kernel(innermost_first, signs);
    out.outside = out.outside == OutsideWait::event && signs.listens ? OutsideWait::requests : out.outside;
    return out;
  }
  const bool own = !report::waits_for_peers(wait->kind) || in_multiprocessing(innermost_first);
  return {.target = own ? WaitTarget::helpers : WaitTarget::peers};
}

}  // namespace xpurun::launcher
