#include "launcher/timing/lateness_watch.h"

#include <functional>
#include <limits>

namespace xpurun::launcher {

namespace {

// The poller of a rank reads finished work every 50 to 200 ms, the supervisor every 100 ms.
constexpr base::MonoNs kSettleNs = 1'000'000'000;
bool is_message(uint16_t api) {
  return api == static_cast<uint16_t>(wire::Api::ncclSend) ||
         api == static_cast<uint16_t>(wire::Api::ncclRecv);
}

constexpr base::MonoNs kSpansNs = 10'000'000'000;  // a window of spans

}  // namespace

void LatenessWatch::looking(bool on, base::MonoNs now) {
  if (on) {
    if (until_ != 0) {
      lateness_.finish_window(from_, until_);
    }
    from_ = now;
    until_ = 0;
  } else if (from_ != 0 && until_ == 0) {
    until_ = now;
  }
}

void LatenessWatch::tick(base::MonoNs now) {
  if (until_ != 0 && now >= until_ + kSettleNs) {
    lateness_.finish_window(from_, until_);
    ++looks_;
    from_ = until_ = 0;
  }
}

void LatenessWatch::add(base::Rank rank, std::span<const wire::Event> events, const wire::Segment& memory) {
  if (from_ == 0) {
    return;
  }
  for (const wire::Event& event : events) {
    const auto begin = static_cast<base::MonoNs>(event.begin_ns);
    if (event.op >= wire::kOpSlots || begin < from_ || (event.flags & wire::kEventHostBegin) != 0) {
      continue;
    }
    const wire::OpKey& key = memory.ops[event.op].key;
    const base::MonoNs end = begin + static_cast<base::MonoNs>(event.duration_ns);
    switch (static_cast<wire::OpClass>(key.op_class)) {
      case wire::OpClass::collective:
        // A stage of a pipeline waits for messages by nature.
        if (key.comm < wire::kCommSlots && event.sequence != 0 && !is_message(key.api) &&
            memory.comms[key.comm].nranks.load() > 1) {
          lateness_.add(rank, {memory.comms[key.comm].identity.load(), event.sequence, begin, end});
        }
        break;
      case wire::OpClass::matmul:
      case wire::OpClass::kernel:
      case wire::OpClass::graph:
        lateness_.add_compute(rank, begin, end);
        break;
      default:
        break;
    }
  }
}

void LatenessWatch::add(base::Rank rank, std::span<const model::Span> spans,
                        const std::vector<std::string>& names) {
  for (const model::Span& span : spans) {
    if (span.stage != model::Stage::communication || span.sequence == 0 || span.group == 0 ||
        span.group >= names.size()) {
      continue;
    }
    const base::MonoNs end = span.begin_ns + span.duration_ns;
    from_ = from_ == 0 ? span.begin_ns : from_;
    if (span.begin_ns >= from_ + kSpansNs) {
      lateness_.finish_window(from_, std::numeric_limits<base::MonoNs>::max());
      from_ = span.begin_ns;
    }
    lateness_.add(rank, {std::hash<std::string>()(names[span.group]), span.sequence, span.begin_ns, end});
  }
}

}  // namespace xpurun::launcher
