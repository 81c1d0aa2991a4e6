// Input: 'e', then a message of Python's bootstrap; 's', then the bytes of a segment: a third of them texts;
// or 'p', then texts and spans of a segment in the same way. Readable input can be shown and written, and
// written facts read back the same.
#include "common/model/exception.h"
#include "common/model/json/json_text.h"
#include "common/model/run_manifest.h"
#include "launcher/collect/python_segments.h"
#include "launcher/spans/span_reader.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

using namespace xpurun;
using nlohmann::json;

namespace {

void require(bool good) {
  if (!good) {
    std::abort();
  }
}

void exception(std::string_view text) {
  auto read = model::exception_from_message(text);
  if (!read) {
    return;
  }
  require(!read->chain.empty());
  (void)model::traceback_text(*read);
  (void)model::headline(read->chain.front());
  (void)model::out_of_memory(read->chain.front());
  model::RunManifest run;
  run.exceptions.push_back(*read);
  const std::string written = model::json_text(to_json(run), 1);
  const auto again = model::run_manifest_from_json(json::parse(written));
  require(again && again->exceptions.size() == 1);
  model::drop_details(*read);
  require(read->chain.size() == 1);
}

void segment(const uint8_t* data, size_t size) {
  static const auto memory = std::make_unique<wire::PythonSegment>();
  constexpr size_t kHead = 16;  // the supervisor's own part
  const size_t groups = std::min(size - size / 3, sizeof *memory - kHead);
  std::memset(memory.get(), 0, sizeof *memory);
  std::memcpy(reinterpret_cast<uint8_t*>(memory.get()) + kHead, data, groups);
  std::memcpy(memory->text, data + groups, std::min(size - groups, sizeof memory->text));
  model::CollectiveFacts facts;
  facts.ranks.push_back(
      {.rank = 0, .pid = 1, .communicators = launcher::read_groups(*memory, 1'000'000'000)});
  const auto again = model::collective_facts_from_json(json::parse(to_json(facts).dump()));
  require(again && to_json(*again) == to_json(facts));
}

void spans(const uint8_t* data, size_t size) {
  static const auto memory = std::make_unique<wire::PythonSegment>();
  const size_t texts = std::min(size / 3, sizeof memory->text);
  std::memset(memory.get(), 0, sizeof *memory);
  std::memcpy(memory->text, data, texts);
  std::memcpy(memory->spans, data + texts, std::min(size - texts, sizeof memory->spans));
  launcher::SpanReader reader;
  for (int round = 0; round < 2; ++round) {
    for (const model::Span& span : reader.read(*memory)) {
      require(span.name < reader.names().size() && span.place < reader.names().size() &&
              span.group < reader.names().size());
      require(span.begin_ns >= 0 && span.begin_ns + span.duration_ns >= span.begin_ns);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == 'e') {
    exception({reinterpret_cast<const char*>(data) + 1, size - 1});
  } else if (size > 0 && data[0] == 'p') {
    spans(data + 1, size - 1);
  } else if (size > 0) {
    segment(data + 1, size - 1);
  }
  return 0;
}
