// Resource files, captures/<n>/rank-<r>.xrs: samples of the hardware counters of one rank's GPU.
// docs/speed.md is the specification. The frame is that of event files (record_file.h).
#pragma once

#include "common/base/result.h"
#include "common/model/timing/record_file.h"
#include "common/wire/capture.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kResourcesSchema = "xpurun.resources/1";
inline constexpr std::string_view kResourceFileSuffix = ".xrs";

struct ResourceSample {
  base::MonoNs begin_ns = 0;
  int64_t duration_ns = 0;
  std::array<float, wire::kResources> values{};
};

struct ResourceFile {
  EventFileHeader header;
  std::map<wire::Resource, std::string> metrics;  // CUPTI's names of those that were sampled
  std::vector<ResourceSample> samples;            // by time, without overlap
  uint64_t bad = 0;                               // samples with impossible times or values, left out
  bool complete = true;
};

// Builds the bytes: header(), define() for each resource before the first sample, then take_block().
class ResourceEncoder {
 public:
  static std::string header(const EventFileHeader& h);

  void define(wire::Resource resource, std::string_view metrics);
  void add(const wire::ResourceSample& sample);
  size_t pending() const { return payload_.size(); }
  std::string take_block();

 private:
  std::vector<wire::Resource> defined_;
  uint64_t last_end_ = 0;
  std::string payload_;
  std::string body_;
};

// The bytes are untrusted.
base::Result<ResourceFile> parse_resource_file(std::string_view bytes);
base::Result<ResourceFile> load_resource_file(const std::string& path);

}  // namespace xpurun::model
