// What the kind of an MPI function says about its calls.
#pragma once

#include "common/wire/mpi_functions.h"

#include <stdint.h>

namespace xpurun::preload {

// Of an array of requests; the calls of further requests are forgotten.
inline constexpr uint32_t kMostMpiRequests = 1024;

template <wire::MpiFunction kFunction>
struct MpiCallTraits {
  using Kind = wire::MpiKind;
  static constexpr Kind kKind = wire::kMpiFunctions[static_cast<size_t>(kFunction)].kind;

  static constexpr bool kMakesComm = kKind == Kind::make_comm || kKind == Kind::join_groups;
  static constexpr bool kIsCollective = kKind == Kind::collective || kKind == Kind::async_collective ||
                                        kMakesComm || kKind == Kind::make_window || kKind == Kind::end ||
                                        kKind == Kind::window || kKind == Kind::end_window ||
                                        kKind == Kind::prepare_collective;
  static constexpr bool kIsPoll = kKind == Kind::test || kKind == Kind::test_all || kKind == Kind::test_any ||
                                  kKind == Kind::test_some || kKind == Kind::poll_probe ||
                                  kKind == Kind::poll_claim || kKind == Kind::window_test ||
                                  kKind == Kind::poll_part;
  static constexpr bool kIsWait =
      kKind == Kind::wait || kKind == Kind::wait_all || kKind == Kind::wait_any || kKind == Kind::wait_some;
  static constexpr bool kIsOne = kKind == Kind::wait || kKind == Kind::test;
  static constexpr bool kHasRequests = kIsWait || kKind == Kind::test || kKind == Kind::test_all ||
                                       kKind == Kind::test_any || kKind == Kind::test_some;
  static constexpr bool kOnWindow = kKind == Kind::window || kKind == Kind::end_window ||
                                    kKind == Kind::lock || kKind == Kind::lock_all || kKind == Kind::unlock ||
                                    kKind == Kind::unlock_all || kKind == Kind::flush ||
                                    kKind == Kind::post || kKind == Kind::access || kKind == Kind::complete ||
                                    kKind == Kind::window_wait || kKind == Kind::window_test;

  static constexpr bool kNeedsPeer = kKind == Kind::async_send || kKind == Kind::async_receive ||
                                     kKind == Kind::prepare_send || kKind == Kind::prepare_receive;
  static constexpr uint32_t kMost = kIsOne ? 1 : kHasRequests ? kMostMpiRequests : 1;

  // The argument with the status, or with the statuses.
  static constexpr uint8_t status_argument() {
    switch (kKind) {
      case Kind::receive:
        return 6;
      case Kind::send_receive:
        return kFunction == wire::MpiFunction::MPI_Sendrecv_replace ? 8 : 11;
      case Kind::claim:
        return 4;
      case Kind::poll_claim:
        return 5;
      case Kind::wait:
        return 1;
      case Kind::wait_all:
      case Kind::test:
        return 2;
      case Kind::wait_any:
      case Kind::test_all:
        return 3;
      case Kind::wait_some:
      case Kind::test_any:
      case Kind::test_some:
        return 4;
      default:
        return wire::kNoArgument;
    }
  }
  static constexpr bool kManyStatuses = kKind == Kind::wait_all || kKind == Kind::wait_some ||
                                        kKind == Kind::test_all || kKind == Kind::test_some;
  static constexpr uint32_t kMostStatuses = kManyStatuses ? 64 : 1;
};

}  // namespace xpurun::preload
