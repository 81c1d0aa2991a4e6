#include "launcher/spans/span_service.h"

#include "common/model/timing/span_file.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace xpurun::launcher {

namespace {
// The ring holds 4096 spans, so a rank may write 40,000 a second.
constexpr double kDrainS = 0.1;
constexpr double kLoadS = 1;
}  // namespace

SpanService::SpanService(Parts parts, const std::string& run_dir, std::string host, Limits limits,
                         std::function<bool()> wanted)
    : parts_(parts),
      host_(std::move(host)),
      wanted_(std::move(wanted)),
      files_(parts.storage, run_dir + "/ranks", limits.span_bytes),
      functions_(parts.storage, run_dir + "/ranks", limits.function_bytes, model::kFunctionFilePrefix) {}

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
  functions_.flush(now);
  if (more) {
    attached();
  } else {
    files_.flush_all();
    functions_.flush_all();
  }
}

void SpanService::flush() {
  const base::MonoNs now = parts_.loop.now();
  for (const base::Pid pid : parts_.segments.pids()) {
    drain(pid, now);
  }
  files_.flush_all();
  functions_.flush_all();
}

std::optional<model::LoadSample> SpanService::load(base::Pid pid) const {
  const auto known = readers_.find(pid);
  return known == readers_.end() ? std::nullopt : known->second.latest;
}

// Traced functions go to their own files: they may be many, and the analysis of steps needs the stages.
void SpanService::write(const SpanSource& who, Reader& reader, std::vector<model::Span> spans) {
  const auto first = std::stable_partition(spans.begin(), spans.end(), [](const model::Span& span) {
    return span.stage != model::Stage::function;
  });
  const std::span<const model::Span> stages(spans.begin(), first);
  const std::span<const model::Span> functions(first, spans.end());
  // The reader cannot know what the lost spans were.
  uint64_t& lost = functions.empty() ? reader.stages_lost : reader.functions_lost;
  lost = reader.spans.lost() + reader.marks.lost() -
         (functions.empty() ? reader.functions_lost : reader.stages_lost);
  functions_.add(who, functions, reader.functions_lost);
  functions_.add(who, reader.spans.take_short_calls());
  if (!stages.empty()) {
    files_.add(who, stages, reader.stages_lost);
    if (consumer_) {
      consumer_(who, stages);
    }
  }
}

// The spans of both writers in the order of their ends, which the steps are counted by.
std::vector<model::Span> SpanService::read(const PythonSegments::View& view, Reader& reader) {
  std::vector<model::Span> out;
  if (view.memory != nullptr) {
    out = reader.spans.read(*view.memory);
  }
  if (view.marks == nullptr) {
    return out;
  }
  const std::vector<model::Span> marks = reader.spans.adopt(reader.marks.read(*view.marks), reader.marks);
  const auto ends_before = [](const model::Span& a, const model::Span& b) {
    return a.begin_ns + a.duration_ns < b.begin_ns + b.duration_ns;
  };
  std::vector<model::Span> both;
  both.reserve(out.size() + marks.size());
  std::merge(out.begin(), out.end(), marks.begin(), marks.end(), std::back_inserter(both), ends_before);
  return both;
}

bool SpanService::drain(base::Pid pid, base::MonoNs now) {
  const PythonSegments::View view = parts_.segments.find(pid);
  const TrackedProcess* p = parts_.table.find(pid);
  if ((view.memory == nullptr && view.marks == nullptr) || p == nullptr) {
    return false;
  }
  if (const auto member = view.memory == nullptr ? std::nullopt : default_group(*view.memory)) {
    parts_.table.note_member(pid, member->rank, member->size);
  }
  if (p->record.role != model::ProcessRole::rank) {
    return p->alive;  // the role may change: a launcher's process that turns out to be a rank
  }
  auto known = readers_.find(pid);
  if (known == readers_.end() || known->second.number != view.number) {
    known =
        readers_
            .insert_or_assign(
                pid,
                Reader{
                    .number = view.number, .spans = {}, .marks = {}, .load = ProcessLoad(pid), .latest = {}})
            .first;
  }
  Reader& reader = known->second;
  if (reader.ended) {
    return false;
  }
  std::vector<model::Span> spans = read(view, reader);
  const SpanSource who{.pid = pid,
                       .rank = p->record.rank,
                       .local_rank = p->record.local_rank,
                       .host = host_,
                       .process = view.number,
                       .names = reader.spans.names()};
  write(who, reader, std::move(spans));
  if (p->alive && base::ns_to_s(now - reader.sampled) >= kLoadS) {
    reader.sampled = now;
    if (auto load = reader.load.sample(now)) {
      load->stolen_ns = stolen_.sample(now);
      files_.add(who, *load);
      reader.latest = load;
      if (load_consumer_) {
        load_consumer_(pid, *load);
      }
    }
  }
  if (!p->alive) {
    reader.ended = true;
    parts_.segments.release_spans(pid);
  }
  return p->alive;
}

}  // namespace xpurun::launcher
