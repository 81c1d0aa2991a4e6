#include "launcher/spans/span_service.h"

namespace xpurun::launcher {

namespace {
// The ring holds 4096 spans, so a rank may write 40,000 a second.
constexpr double kDrainS = 0.1;
constexpr double kLoadS = 1;
}  // namespace

SpanService::SpanService(Parts parts, const std::string& run_dir, std::string host, uint64_t most_bytes,
                         std::function<bool()> wanted)
    : parts_(parts),
      host_(std::move(host)),
      wanted_(std::move(wanted)),
      files_(parts.storage, run_dir + "/ranks", most_bytes) {}

SpanService::~SpanService() {
  parts_.loop.cancel(timer_);
}

void SpanService::before_attach(base::Pid pid) {
  drain(pid, parts_.loop.now());
  parts_.segments.record_spans(wanted_());
}

void SpanService::attached() {
  if (timer_ == 0) {
    timer_ = parts_.loop.after(kDrainS, [this] { tick(); });
  }
}

void SpanService::tick() {
  timer_ = 0;
  parts_.segments.record_spans(wanted_());
  const base::MonoNs now = parts_.loop.now();
  bool more = false;
  for (const base::Pid pid : parts_.segments.pids()) {
    more = drain(pid, now) || more;
  }
  files_.flush(now);
  if (more) {
    attached();
  } else {
    files_.flush_all();
  }
}

void SpanService::flush() {
  const base::MonoNs now = parts_.loop.now();
  for (const base::Pid pid : parts_.segments.pids()) {
    drain(pid, now);
  }
  files_.flush_all();
}

bool SpanService::drain(base::Pid pid, base::MonoNs now) {
  const PythonSegments::View view = parts_.segments.find(pid);
  const TrackedProcess* p = parts_.table.find(pid);
  if (view.memory == nullptr || p == nullptr) {
    return false;
  }
  if (p->record.role != model::ProcessRole::rank) {
    return p->alive;  // the role may change: a launcher's process that turns out to be a rank
  }
  auto known = readers_.find(pid);
  if (known == readers_.end() || known->second.number != view.number) {
    known =
        readers_.insert_or_assign(pid, Reader{.number = view.number, .spans = {}, .load = ProcessLoad(pid)})
            .first;
  }
  Reader& reader = known->second;
  if (reader.ended) {
    return false;
  }
  const std::vector<model::Span> spans = reader.spans.read(*view.memory);
  const SpanSource who{.pid = pid,
                       .rank = p->record.rank,
                       .local_rank = p->record.local_rank,
                       .host = host_,
                       .process = view.number,
                       .names = reader.spans.names()};
  if (!spans.empty()) {
    files_.add(who, spans, reader.spans.lost());
    if (consumer_) {
      consumer_(who, spans);
    }
  }
  if (p->alive && base::ns_to_s(now - reader.sampled) >= kLoadS) {
    reader.sampled = now;
    if (const auto load = reader.load.sample(now)) {
      files_.add(who, *load);
    }
  }
  if (!p->alive) {
    reader.ended = true;
    parts_.segments.release_spans(pid);
  }
  return p->alive;
}

}  // namespace xpurun::launcher
