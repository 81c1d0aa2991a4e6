// Input: the records of a span file as one block; or, behind an 'r', the bytes of a whole file. What is read
// must be printable, safe to index and add, and survives being written and read again.
#include "common/model/timing/record_file.h"
#include "common/model/timing/span_encoder.h"
#include "common/model/timing/span_file.h"
#include "launcher/spans/span_text.h"

#include <cstdint>
#include <cstdlib>

using namespace xpurun;

namespace {

void check(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void read(std::string_view bytes) {
  const auto file = model::parse_span_file(bytes);
  if (!file) {
    return;
  }
  check(!launcher::span_file_text(*file, "x").empty() && !launcher::span_file_json(*file, "x").empty());
  for (size_t i = 0; i < file->spans.size(); ++i) {
    check(!launcher::span_text(*file, i).empty() && !launcher::span_json(*file, i).empty());
  }
  for (size_t i = 0; i < file->loads.size(); ++i) {
    check(!launcher::load_json(*file, i).empty());
  }
  model::SpanEncoder encoder;
  const auto renamed = [&](uint32_t index) {
    check(index < file->names.size());
    return encoder.name(file->names[index]);
  };
  for (model::Span span : file->spans) {
    check(span.begin_ns >= 0 && span.duration_ns >= 0 && span.begin_ns + span.duration_ns >= span.begin_ns);
    span.name = renamed(span.name);
    span.place = renamed(span.place);
    span.group = renamed(span.group);
    encoder.add(span);
  }
  for (const model::LoadSample& load : file->loads) {
    encoder.add(load);
  }
  for (model::ShortCalls calls : file->short_calls) {
    calls.name = renamed(calls.name);
    encoder.add(calls);
  }
  const auto again = model::parse_span_file(model::SpanEncoder::header(file->header) + encoder.take_block());
  check(again && again->complete && again->spans.size() == file->spans.size() &&
        again->loads.size() == file->loads.size() && again->short_calls.size() == file->short_calls.size());
  for (size_t i = 0; i < file->spans.size(); ++i) {
    const model::Span& one = file->spans[i];
    const model::Span& other = again->spans[i];
    check(one.begin_ns == other.begin_ns && one.duration_ns == other.duration_ns &&
          one.cpu_ns == other.cpu_ns && one.stage == other.stage && one.sequence == other.sequence &&
          one.bytes == other.bytes && file->names[one.place] == again->names[other.place]);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('r')) {
    read(text.substr(1));
    return 0;
  }
  read(model::SpanEncoder::header({.rank = 1}) + model::records::block_of(text));
  return 0;
}
