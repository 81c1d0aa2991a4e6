// Names and formulas for counted calls: data types, directions, bus bandwidth.
#pragma once

#include "common/model/timing/timed_event.h"
#include "common/wire/segment.h"

#include <optional>
#include <string>
#include <string_view>

namespace xpurun::model {

// "matmul", "collective"; "unknown" for an unknown number.
std::string_view class_name(uint8_t op_class);
// "off", "light", "full"
std::string_view level_name(wire::Level level);
std::optional<wire::Level> level_from_name(std::string_view name);
// "ncclAllReduce"; "other" for calls that found no free table entry; "unknown" for an unknown number.
std::string_view api_name(const wire::OpKey& key);
std::string_view api_name(const EventKey& key);
// The other way round; kApiCount for a function unknown to this version.
uint16_t api_number(std::string_view function);
// "AllReduce", "SendRecv" for a collective.
std::string_view collective_name(const wire::OpKey& key);
std::string_view collective_name(const EventKey& key);
// The type of elements, of a call of which a foreign file does not tell it.
inline constexpr uint8_t kNoType = 0xff;
// cudaDataType_t: "fp32", "bf16", "fp8_e4m3"; "type<N>" for types without a name.
std::string cuda_type_name(int type);
// ncclDataType_t.
std::string nccl_type_name(int type);
// "H2D", "D2D"; "" for operations other than copies.
std::string_view copy_direction(const wire::OpKey& key);
std::string_view copy_direction(const EventKey& key);

// "events", "nccl_profiler"; "ring", "LL128"; "unknown" if NCCL did not report it.
std::string_view source_name(uint8_t source);
std::string_view algorithm_name(uint8_t algorithm);
std::string_view protocol_name(uint8_t protocol);

// Bus bandwidth is algorithm bandwidth times this factor, by the conventions of nccl-tests; 0 for a single
// rank.
double bus_factor(std::string_view collective, int ranks);
// The same for a function of MPI and its argument; 0: it has none.
double mpi_bus_factor(std::string_view function, double ranks);

}  // namespace xpurun::model
