// Input: the records of a resource file as one block; or, behind an 'r', the bytes of a whole file. What is
// read must be in order, finite, safe to sum up, and survive being written and read again.
#include "common/model/resources/resource_file.h"
#include "report/profile/resource_sums.h"

#include <cmath>
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
  const auto file = model::parse_resource_file(bytes);
  if (!file) {
    return;
  }
  model::ResourceEncoder encoder;
  for (const auto& [resource, metrics] : file->metrics) {
    encoder.define(resource, metrics);
  }
  int64_t end = 0;
  for (const model::ResourceSample& sample : file->samples) {
    check(sample.begin_ns >= end && sample.duration_ns > 0);
    end = sample.begin_ns + sample.duration_ns;
    wire::ResourceSample raw{.begin_ns = static_cast<uint64_t>(sample.begin_ns),
                             .duration_ns = static_cast<uint32_t>(sample.duration_ns)};
    for (size_t i = 0; i < wire::kResources; ++i) {
      check(std::isfinite(sample.values[i]) && sample.values[i] >= 0);
      raw.values[i] = sample.values[i];
    }
    encoder.add(raw);
  }
  for (const model::ResourceUse& use : report::sums_between(*file, 0, end).uses()) {
    check(std::isfinite(use.mean) && std::isfinite(use.spread) && use.spread >= 0);
  }
  const double filled = report::sums_while(*file, {{0, end / 2}, {end / 3, end}}).filled();
  check(filled >= 0 && filled <= 1.000001);
  const auto again =
      model::parse_resource_file(model::ResourceEncoder::header(file->header) + encoder.take_block());
  check(again && again->complete && again->bad == 0 && again->samples.size() == file->samples.size());
  for (size_t i = 0; i < file->samples.size(); ++i) {
    check(again->samples[i].begin_ns == file->samples[i].begin_ns &&
          again->samples[i].values == file->samples[i].values);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('r')) {
    read(text.substr(1));
    return 0;
  }
  read(model::ResourceEncoder::header({.rank = 1}) + model::records::block_of(text));
  return 0;
}
