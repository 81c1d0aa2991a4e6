#include "common/model/resources/resource_file.h"

#include "common/base/os/io.h"

#include <bit>
#include <cmath>

namespace xpurun::model {

namespace {

using records::Fields;

constexpr uint8_t kResourceRecord = 1;
constexpr uint8_t kSampleRecord = 2;
constexpr uint64_t kLatestSampleNs = uint64_t{1} << 62;
constexpr uint64_t kLongestSampleNs = uint64_t{1} << 32;
constexpr float kLargestRate = 1e15F;  // bytes a second
constexpr size_t kMostColumns = 64;

class ResourceFileParser {
 public:
  explicit ResourceFileParser(ResourceFile& out) : out_(out) {}

  // False if the record is damaged.
  bool record(uint8_t tag, Fields in) {
    return tag == kResourceRecord ? resource(in) : tag != kSampleRecord || sample(in);
  }

 private:
  bool resource(Fields in) {
    const uint64_t number = in.varint();
    const std::string metrics(in.text());
    if (!in.ok() || columns_.size() >= kMostColumns) {
      return false;
    }
    const auto resource = static_cast<wire::Resource>(number);
    columns_.push_back(number < wire::kResources ? static_cast<int>(number) : -1);  // of a later version
    if (number < wire::kResources) {
      out_.metrics[resource] = metrics;
    }
    return true;
  }

  bool sample(Fields in) {
    ResourceSample s;
    const uint64_t begin = last_ + static_cast<uint64_t>(in.signed_varint());
    const uint64_t duration = in.varint();
    last_ = begin + duration;
    bool sound = begin >= end_ && begin < kLatestSampleNs && duration > 0 && duration < kLongestSampleNs;
    for (const int column : columns_) {
      const auto value = std::bit_cast<float>(static_cast<uint32_t>(in.fixed(4)));
      if (column >= 0) {
        sound = sound && std::isfinite(value) && value >= 0 && value < kLargestRate;
        s.values[static_cast<size_t>(column)] = value;
      }
    }
    if (!in.ok()) {
      return false;
    }
    if (!sound) {
      ++out_.bad;
      return true;
    }
    end_ = begin + duration;
    s.begin_ns = static_cast<base::MonoNs>(begin);
    s.duration_ns = static_cast<int64_t>(duration);
    out_.samples.push_back(s);
    return true;
  }

  ResourceFile& out_;
  std::vector<int> columns_;
  uint64_t last_ = 0;  // end of the previous sample, sound or not
  uint64_t end_ = 0;   // end of the latest kept sample
};

}  // namespace

std::string ResourceEncoder::header(const EventFileHeader& h) {
  return records::header_lines(kResourcesSchema, h);
}

void ResourceEncoder::define(wire::Resource resource, std::string_view metrics) {
  defined_.push_back(resource);
  records::put_varint(body_, static_cast<uint64_t>(resource));
  records::put_text(body_, metrics);
  records::put_record(payload_, kResourceRecord, body_);
  body_.clear();
}

void ResourceEncoder::add(const wire::ResourceSample& sample) {
  records::put_signed(body_, static_cast<int64_t>(sample.begin_ns - last_end_));
  records::put_varint(body_, sample.duration_ns);
  for (const wire::Resource resource : defined_) {
    records::put_fixed(body_, std::bit_cast<uint32_t>(sample.values[static_cast<size_t>(resource)]), 4);
  }
  last_end_ = sample.begin_ns + sample.duration_ns;
  records::put_record(payload_, kSampleRecord, body_);
  body_.clear();
}

std::string ResourceEncoder::take_block() {
  std::string out = records::block_of(payload_);
  payload_.clear();
  return out;
}

base::Result<ResourceFile> parse_resource_file(std::string_view bytes) {
  ResourceFile out;
  XPURUN_TRY_ASSIGN(out.header, records::take_header(bytes, kResourcesSchema));
  ResourceFileParser parser(out);
  out.complete =
      records::each_record(bytes, [&](uint8_t tag, Fields body) { return parser.record(tag, body); });
  return out;
}

base::Result<ResourceFile> load_resource_file(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string bytes, base::read_regular_file(path, records::kLargestFile));
  auto parsed = parse_resource_file(bytes);
  if (!parsed) {
    return base::fail(base::Error(parsed.error()).context(path));
  }
  return parsed;
}

}  // namespace xpurun::model
