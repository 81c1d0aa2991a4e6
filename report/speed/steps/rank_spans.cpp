#include "report/speed/steps/rank_spans.h"

#include <algorithm>
#include <unordered_map>

namespace xpurun::report {

namespace {

constexpr int64_t kLongest = int64_t{30} * 86400 * 1'000'000'000;  // of a span

}  // namespace

RankSpans join_spans(const RankRecord& rank, Functions functions) {
  RankSpans out;
  std::unordered_map<std::string, uint32_t> known{{"", 0}};
  std::vector<const model::SpanFile*> files;
  size_t count = 0;
  for (const auto* kind : {&rank.spans, &rank.functions}) {
    for (const model::SpanFile& file : *kind) {
      if (kind == &rank.spans || functions == Functions::with) {
        files.push_back(&file);
        count += file.spans.size();
      }
    }
  }
  out.spans.reserve(count);
  for (const model::SpanFile* file : files) {
    std::vector<uint32_t> index;
    for (const std::string& name : file->names) {
      const auto [it, added] = known.emplace(name, static_cast<uint32_t>(out.names.size()));
      if (added) {
        out.names.push_back(name);
      }
      index.push_back(it->second);
    }
    const auto mapped = [&index](uint32_t name) { return name < index.size() ? index[name] : 0; };
    for (model::Span span : file->spans) {
      if (span.duration_ns < 0 || span.duration_ns > kLongest || span.begin_ns < 0) {
        continue;
      }
      span.begin_ns += rank.offset_ns;
      span.name = mapped(span.name);
      span.place = mapped(span.place);
      span.group = mapped(span.group);
      out.spans.push_back(span);
    }
    for (model::LoadSample load : file->loads) {
      load.at_ns += rank.offset_ns;
      out.loads.push_back(load);
    }
    // In the other files they are no calls of traced functions.
    const bool traced = std::any_of(rank.functions.begin(), rank.functions.end(),
                                    [file](const model::SpanFile& one) { return &one == file; });
    for (model::ShortCalls calls : traced ? file->short_calls : std::vector<model::ShortCalls>()) {
      calls.begin_ns += rank.offset_ns;
      calls.name = mapped(calls.name);
      out.short_calls.push_back(calls);
    }
  }
  std::sort(out.spans.begin(), out.spans.end(), [](const model::Span& a, const model::Span& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.duration_ns > b.duration_ns;
  });
  std::sort(out.loads.begin(), out.loads.end(),
            [](const model::LoadSample& a, const model::LoadSample& b) { return a.at_ns < b.at_ns; });
  return out;
}

}  // namespace xpurun::report
