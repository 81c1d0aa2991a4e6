// LinkClass: over which kind of link the ranks of a communicator exchange data.
#pragma once

#include "common/model/names.h"

#include <array>
#include <string_view>

namespace xpurun::model {

enum class LinkClass {
  unknown,
  inside_node,    // all ranks are on one node: NVLink, PCIe
  between_nodes,  // the network
};
template <>
inline constexpr std::array<std::string_view, 3> kNames<LinkClass> = {"", "inside a node", "between nodes"};

}  // namespace xpurun::model
