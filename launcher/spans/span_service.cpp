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

void SpanService::before_attach(base::Pid pid) {
  drain(pid, parts_.loop.now());
  parts_.segments.record_spans(wanted_());
  parts_.mpi.record_times(wanted_());
}

void SpanService::attached() {
  if (!timer_.running()) {
    timer_.after(kDrainS, [this] { tick(); });
  }
}

void SpanService::tick() {
  parts_.segments.record_spans(wanted_());
  parts_.mpi.record_times(wanted_());
  const base::MonoNs now = parts_.loop.now();
  bool more = false;
  for (const base::Pid pid : pids()) {
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
  for (const base::Pid pid : pids()) {
    drain(pid, now);
  }
  files_.flush_all();
  functions_.flush_all();
}

std::set<base::Pid> SpanService::pids() const {
  std::set<base::Pid> out;
  for (const auto& all : {parts_.segments.pids(), parts_.mpi.pids()}) {
    out.insert(all.begin(), all.end());
  }
  return out;
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
  lost = reader.spans.lost() + reader.marks.lost() + reader.mpi.lost() -
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

// The spans of two writers in the order of their ends, which the steps are counted by.
std::vector<model::Span> SpanService::merged(const std::vector<model::Span>& a,
                                             const std::vector<model::Span>& b) {
  const auto ends_before = [](const model::Span& x, const model::Span& y) {
    return x.begin_ns + x.duration_ns < y.begin_ns + y.duration_ns;
  };
  std::vector<model::Span> both;
  both.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both), ends_before);
  return both;
}

std::vector<model::Span> SpanService::read(const PythonSegments::View& view, Reader& reader) {
  std::vector<model::Span> out;
  if (view.memory != nullptr) {
    out = reader.spans.read(*view.memory);
  }
  if (view.marks == nullptr) {
    return out;
  }
  std::vector<model::Span> marks = reader.marks.read(*view.marks);
  for (model::Span& mark : marks) {
    mark.name = reader.spans.adopt(reader.marks.names()[mark.name]);
    mark.place = mark.group = 0;  // marks have none
  }
  return merged(out, marks);
}

MpiSpans::Found SpanService::read(const wire::MpiSegment& memory, Reader& reader, base::Pid pid, bool last) {
  return reader.mpi.read(
      memory,
      {.index = [&reader](const std::string& text) { return reader.spans.adopt(text); },
       .place = [this, pid](uint64_t address) { return parts_.places.find(pid, address); }},
      parts_.loop.now(), last);
}

// A process may call MPI before its first span in Python, and afterwards.
SpanService::Reader& SpanService::reader_of(base::Pid pid, const PythonSegments::View& python,
                                            const MpiSegments::View& mpi) {
  const auto known = readers_.find(pid);
  const bool same_mpi = known != readers_.end() && known->second.mpi_number == mpi.number;
  if (same_mpi && known->second.number == python.number) {
    return known->second;
  }
  Reader fresh{.number = python.number,
               .spans = {},
               .marks = {},
               .mpi_number = mpi.number,
               .mpi = same_mpi ? std::move(known->second.mpi) : MpiSpans(),
               .load = ProcessLoad(pid),
               .latest = {}};
  return readers_.insert_or_assign(pid, std::move(fresh)).first->second;
}

bool SpanService::drain(base::Pid pid, base::MonoNs now) {
  const PythonSegments::View view = parts_.segments.find(pid);
  const MpiSegments::View mpi = parts_.mpi.find(pid);
  const TrackedProcess* p = parts_.table.find(pid);
  if ((view.memory == nullptr && view.marks == nullptr && mpi.memory == nullptr) || p == nullptr) {
    return false;
  }
  if (const auto member = view.memory == nullptr ? std::nullopt : default_group(*view.memory)) {
    parts_.table.note_member(pid, member->rank, member->size);
  }
  if (p->record.role != model::ProcessRole::rank) {
    return p->alive;  // the role may change: a launcher's process that turns out to be a rank
  }
  Reader& reader = reader_of(pid, view, mpi);
  if (reader.ended) {
    return false;
  }
  std::vector<model::Span> spans = read(view, reader);
  MpiSpans::Found calls;
  if (mpi.memory != nullptr) {
    calls = read(*mpi.memory, reader, pid, !p->alive);
    spans = merged(spans, calls.spans);
  }
  const SpanSource who{.pid = pid,
                       .rank = p->record.rank,
                       .local_rank = p->record.local_rank,
                       .host = host_,
                       .process = view.number << 32 | mpi.number,
                       .backend = view.memory == nullptr ? "" : default_backend(*view.memory),
                       .names = reader.spans.names()};
  write(who, reader, std::move(spans));
  files_.add(who, calls.others);
  if (p->alive && base::ns_to_s(now - reader.sampled) >= kLoadS) {
    reader.sampled = now;
    if (auto load = reader.load.sample(now)) {
      load->stolen_ns = stolen_.sample(now);
      if (view.memory != nullptr) {
        load->gpu = gpu_memory_in(*view.memory, now).value_or(model::GpuMemory());
      }
      files_.add(who, *load);
      reader.latest = load;
      if (load_consumer_) {
        load_consumer_(pid, *load);
      }
    }
  }
  if (!p->alive && reader.mpi.empty()) {
    reader.ended = true;
    parts_.segments.release_spans(pid);
  }
  return p->alive || !reader.mpi.empty();
}

}  // namespace xpurun::launcher
