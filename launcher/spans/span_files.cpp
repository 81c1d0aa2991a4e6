#include "launcher/spans/span_files.h"

#include "common/base/output/log.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {
// A rank's disk limit is divided into this many files. Over the limit, the oldest file is removed.
constexpr uint64_t kFiles = 4;
// A block is written at this size or at this age. Each block costs eight bytes in addition to its spans.
constexpr size_t kBlockBytes = 4 * 1024;
constexpr double kLongestWaitS = 3;
}  // namespace

void SpanFiles::add(const SpanSource& who, std::span<const model::Span> spans, uint64_t lost) {
  if (most_bytes_ == 0 || spans.empty() || who.rank == base::kNoRank) {
    return;
  }
  RankFiles& files = ranks_[who.rank];
  for (const model::Span& span : spans) {
    Open* open = ready(files, who);
    if (open == nullptr) {
      return;
    }
    if (lost > files.lost) {
      open->encoder.lost(lost - files.lost);
      files.lost = lost;
    }
    open->encoder.backend(who.backend);
    model::Span renamed = span;
    renamed.name = open->encoder.name(who.names[span.name]);
    renamed.place = open->encoder.name(who.names[span.place]);
    renamed.group = open->encoder.name(who.names[span.group]);
    open->encoder.add(renamed);
    if (open->encoder.pending() >= kBlockBytes) {
      write(files);
    }
  }
}

void SpanFiles::add(const SpanSource& who, std::span<const model::ShortCalls> calls) {
  if (most_bytes_ == 0 || who.rank == base::kNoRank) {
    return;
  }
  for (model::ShortCalls one : calls) {
    if (Open* open = ready(ranks_[who.rank], who); open != nullptr) {
      one.name = open->encoder.name(who.names[one.name]);
      one.place = open->encoder.name(who.names[one.place]);
      open->encoder.add(one);
    }
  }
}

void SpanFiles::add(const SpanSource& who, const model::LoadSample& load) {
  // A process without spans needs no samples.
  const auto known = ranks_.find(who.rank);
  if (known == ranks_.end() || known->second.process != who.process) {
    return;
  }
  if (Open* open = ready(known->second, who); open != nullptr) {
    open->encoder.add(load);
  }
}

SpanFiles::Open* SpanFiles::ready(RankFiles& files, const SpanSource& who) {
  if (has_failed(files)) {
    return nullptr;
  }
  if (files.open && files.open->process == who.process &&
      files.open->bytes() + 2 * kBlockBytes <= most_bytes_ / kFiles) {
    return &*files.open;
  }
  close(files);
  if (files.process != who.process) {
    files.process = who.process;
    files.lost = 0;
  }
  while (files.closed.size() >= kFiles - 1) {
    storage_.remove(files.closed.front());
    files.closed.pop_front();
  }
  const model::EventFileHeader header{.rank = who.rank,
                                      .local_rank = who.local_rank,
                                      .pid = who.pid,
                                      .host = who.host,
                                      .mono_ns = base::mono_ns(),
                                      .wall_ns = base::wall_ns()};
  const std::string name = fmt::format("{}{}{}", prefix_, files.next++, model::kSpanFileSuffix);
  files.open.emplace(Open{.file = AppendedFile(storage_, fmt::format("{}/{}", ranks_dir_, who.rank), name,
                                               model::SpanEncoder::header(header)),
                          .encoder = {},
                          .process = who.process});
  files.flushed = header.mono_ns;
  return has_failed(files) ? nullptr : &*files.open;
}

void SpanFiles::write(RankFiles& files) {
  files.flushed = base::mono_ns();
  files.open->file.append(files.open->encoder.take_block());
}

void SpanFiles::close(RankFiles& files) {
  if (files.open) {
    write(files);
    files.closed.push_back(files.open->file.path());
    files.open.reset();
  }
}

bool SpanFiles::has_failed(RankFiles& files) {
  if (!files.broken && files.open && !files.open->file.status()) {
    base::log_warn("no more span files: {}", base::to_line(files.open->file.status().error()));
    files.broken = true;
  }
  return files.broken;
}

void SpanFiles::flush(base::MonoNs now) {
  for (auto& [rank, files] : ranks_) {
    if (files.open && files.open->encoder.pending() > 0 &&
        base::ns_to_s(now - files.flushed) >= kLongestWaitS) {
      write(files);
    }
  }
}

void SpanFiles::flush_all() {
  for (auto& [rank, files] : ranks_) {
    if (files.open) {
      write(files);
    }
  }
}

}  // namespace xpurun::launcher
