// The content of event files as structs: entries of calls that are alike, and single timed calls. These are
// the structs of the file format (docs/events.md), not of the shared segment: a change of the segment does
// not change what a file holds. The launcher converts (launcher/collect/event_from_wire.h).
#pragma once

#include <compare>
#include <cstdint>

namespace xpurun::model {

// Limits of the format; a larger number in a file is damage.
inline constexpr uint32_t kMostEntries = 1024;
inline constexpr uint32_t kMostCommunicators = 128;
inline constexpr uint32_t kNoCommunicator = 0xffffffff;

// What is equal for all calls of one entry.
struct EventKey {
  uint16_t api = 0;      // wire::Api of this version, from the name of the function; not in the file
  uint8_t op_class = 0;  // number of a wire::OpClass
  uint8_t flags = 0;     // wire::OpFlag
  // cudaDataType_t of A, B, C, D; collectives: ncclDataType_t in [0].
  uint8_t dtype[4] = {};
  uint8_t compute = 0;  // matmul: cublasComputeType_t; collective: ncclRedOp_t
  uint8_t trans = 0;    // matmul: operation of A | operation of B << 4 (0 N, 1 T, 2 C)
  uint16_t epilogue = 0;
  uint32_t batch = 0;  // matmul; grouped forms: number of groups
  // matmul: the problem; collective: k is the count of elements; memory: k is the binary logarithm of bytes.
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  uint32_t comm = 0;   // collective: slot of its communicator, else kNoCommunicator
  int32_t peer = 0;    // root or peer; -1: none
  uint8_t copy = 0;    // memory: cudaMemcpyKind, else 0
  uint8_t pinned = 0;  // memory: number of a wire::HostMemory

  auto operator<=>(const EventKey&) const = default;
};

// How NCCL carried out a collective: numbers of wire::Algorithm and wire::Protocol; 0: unknown.
struct EventHow {
  uint8_t algorithm = 0;
  uint8_t protocol = 0;
  uint8_t channels = 0;

  bool operator==(const EventHow&) const = default;
};

struct TimedEvent {
  uint64_t begin_ns = 0;  // CLOCK_MONOTONIC of the host
  uint64_t duration_ns = 0;
  uint32_t op = 0;        // number of its entry
  uint32_t sequence = 0;  // collective: sequence number on its communicator; else count within its entry,
                          // from 0; low 32 bits
  uint32_t delay_us = 0;  // from the call to its start on the GPU, saturated; class `host`: the thread
  uint16_t stream = 0;    // number of the stream in the process
  uint8_t source = 0;     // number of a wire::Source
  uint8_t flags = 0;      // wire::EventFlag
  EventHow how;

  bool operator==(const TimedEvent&) const = default;
};

}  // namespace xpurun::model
