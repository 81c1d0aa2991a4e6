#include "report/events/foreign/xpu_timer/kernel.h"

#include "common/base/strings.h"
#include "report/events/foreign/operation_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace xpurun::report {

namespace {

using namespace xpu_timer;
using protozero::pbf_reader;
constexpr size_t kLongestList = 100;

std::string put_text(XpuTimerKernel& k, const char* name, pbf_reader& r) {
  const auto view = r.get_view();
  std::string text = base::sanitize({view.data(), view.size()});
  k.arguments.push_back({name, text});
  return text;
}

void put_number(XpuTimerKernel& k, const char* name, uint64_t number) {
  k.arguments.push_back({name, static_cast<int64_t>(number)});
}

// "64,1,1"
template <typename Range>
std::string list_text(const Range& numbers) {
  std::string out;
  for (const auto n : numbers) {
    if (out.size() > kLongestList) {
      return out + ",...";
    }
    out += fmt::format("{}{}", out.empty() ? "" : ",", n);
  }
  return out;
}

// Batch, lengths of the queries and of the keys, size of the heads.
void read_attention(XpuTimerKernel& k, pbf_reader r) {
  while (r.next()) {
    if (r.tag_and_type() == field(1, kBytes)) {
      k.arguments.push_back({"attention", list_text(r.get_packed_uint32())});
    } else {
      r.skip();
    }
  }
}

void read_grouped_matmul(XpuTimerKernel& k, pbf_reader r) {
  int64_t groups = 0;
  while (r.next()) {
    switch (r.tag_and_type()) {
      case field(1, kBytes):
        ++groups;
        r.skip();
        break;
      case field(2, kBytes):
        put_text(k, "dtype", r);
        break;
      case field(3, kBytes):
        put_text(k, "function", r);
        break;
      case field(4, kFixed64): {
        const double flop = r.get_double();  // named tflops
        k.work = flop > 0 && flop < 1e18 ? static_cast<uint64_t>(flop) : 0;
        break;
      }
      default:
        r.skip();
    }
  }
  k.arguments.push_back({"groups", groups});
}

void read_collective(XpuTimerKernel& k, pbf_reader r) {
  while (r.next()) {
    switch (r.tag_and_type()) {
      case field(1, kBytes):
        k.arguments.push_back({"grid", list_text(r.get_packed_uint32())});
        break;
      case field(2, kBytes):
        k.arguments.push_back({"block", list_text(r.get_packed_uint32())});
        break;
      case field(7, kVarint):
        put_number(k, "nodes", r.get_uint32());
        break;
      case field(3, kVarint):
        k.communicator = r.get_uint64();
        k.arguments.push_back({"communicator", fmt::format("{:016x}", k.communicator)});
        break;
      case field(4, kVarint):
        k.work = r.get_uint64();
        put_number(k, "bytes", k.work);
        break;
      case field(5, kBytes):
        k.key.dtype[0] = type_byte(nccl_type(put_text(k, "dtype", r)));
        break;
      case field(6, kVarint):
        k.ranks = r.get_uint32();
        put_number(k, "communicator_size", static_cast<uint64_t>(k.ranks));
        break;
      case field(8, kVarint):
        k.sequence = r.get_uint64();
        break;
      case field(9, kVarint):
        k.problem_size = r.get_uint64();
        put_number(k, "problem_size", k.problem_size);
        break;
      case field(10, kVarint):
        if (const uint32_t type = r.get_uint32(); type != 0) {
          k.point_to_point = true;
          k.arguments.push_back({"direction", std::string(type == 1 ? "send" : "receive")});
        }
        break;
      default:
        r.skip();
    }
  }
}

void read_memory(XpuTimerKernel& k, pbf_reader r) {
  while (r.next()) {
    switch (r.tag_and_type()) {
      case field(1, kVarint):
        k.work = r.get_uint64();
        put_number(k, "bytes", k.work);
        break;
      case field(2, kBytes):
        put_text(k, "direction", r);
        break;
      default:
        r.skip();
    }
  }
}

}  // namespace

void read_xpu_timer_matmul(XpuTimerKernel& k, pbf_reader r) {
  while (r.next()) {
    switch (r.tag_and_type()) {
      case field(1, kBytes): {
        uint64_t flop = 2;
        std::string shape;
        std::vector<int64_t> sizes;  // batch, m, n, k
        for (const uint32_t n : r.get_packed_uint32()) {
          sizes.push_back(n);
          flop *= n;
          shape += fmt::format("{}{}", shape.empty() ? "" : "x", n);
          if (shape.size() > 100) {
            break;
          }
        }
        k.work = flop;
        if (sizes.size() == 4) {
          k.key.batch = static_cast<uint32_t>(sizes[0]);
          k.key.m = sizes[1];
          k.key.n = sizes[2];
          k.key.k = sizes[3];
        }
        k.arguments.push_back({"shape", shape});
        break;
      }
      case field(2, kBytes): {
        const uint8_t type = type_byte(cuda_type(put_text(k, "dtype", r)));
        std::fill(std::begin(k.key.dtype), std::end(k.key.dtype), type);
        break;
      }
      case field(3, kBytes): {
        const std::string letters = put_text(k, "transposes", r);
        const auto number = [&](size_t at) -> unsigned {
          return letters[at] == 'T' ? 1 : letters[at] == 'C' ? 2 : 0;
        };
        k.key.trans = static_cast<uint8_t>(letters.size() < 2 ? 0 : number(0) | number(1) << 4U);
        break;
      }
      case field(4, kBytes):
        k.arguments.push_back({"leading_dimensions", list_text(r.get_packed_int64())});
        break;
      case field(5, kBytes):
        k.arguments.push_back({"strides", list_text(r.get_packed_int64())});
        break;
      case field(6, kVarint):
        k.arguments.push_back({"cublas_algorithm", int64_t{r.get_int32()}});
        break;
      case field(7, kBytes):
        put_text(k, "function", r);
        break;
      default:
        r.skip();
    }
  }
}

XpuTimerKernel read_xpu_timer_kernel(pbf_reader r) {
  XpuTimerKernel k;
  while (r.next()) {
    switch (r.tag_and_type()) {
      case field(1, kVarint):
        k.type = r.get_uint32();
        break;
      case field(2, kVarint):
        k.code = r.get_uint32();
        break;
      case field(3, kVarint):
        k.start_us = r.get_uint64();
        break;
      case field(4, kVarint):
        k.duration_us = r.get_uint32();
        break;
      case field(5, kVarint):
        k.delay_us = r.get_uint32();
        break;
      case field(6, kVarint):
        put_number(k, "count", r.get_uint64());
        break;
      case field(7, kBytes):
        read_xpu_timer_matmul(k, r.get_message());
        break;
      case field(8, kBytes):
        read_attention(k, r.get_message());
        break;
      case field(11, kVarint):
        k.host = r.get_bool();
        break;
      case field(12, kBytes):
        read_grouped_matmul(k, r.get_message());
        break;
      case field(9, kBytes):
        read_collective(k, r.get_message());
        break;
      case field(10, kBytes):
        read_memory(k, r.get_message());
        break;
      default:
        r.skip();
    }
  }
  const uint64_t moved = k.type == kXpuTimerCollective ? k.problem_size
                         : k.type == kXpuTimerMatmul   ? 0
                                                       : k.work;
  if (moved > 0 && k.duration_us > 0) {
    // Bytes in a microsecond, 1e6 bytes a second.
    k.arguments.push_back(
        {"bandwidth_GB/s", static_cast<double>(moved) / static_cast<double>(k.duration_us) / 1e3});
  }
  return k;
}

}  // namespace xpurun::report
