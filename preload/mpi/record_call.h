// One MPI call from begin to end: what goes into the ledger before and after it, by the kind of its function.
#pragma once

#include "preload/mpi/ledger.h"

#include <string.h>

namespace xpurun::preload {

// Of an array of requests; the calls of further requests are forgotten.
inline constexpr uint32_t kMostMpiRequests = 1024;

// The call in progress. `words`: its arguments, which the recorder may replace (a status that the program
// does not want, but the ledger needs).
template <wire::MpiFunction kFunction>
class RecordedMpiCall {
 public:
  static constexpr wire::MpiFunctionInfo kInfo = wire::kMpiFunctions[static_cast<size_t>(kFunction)];
  static constexpr wire::MpiKind kKind = kInfo.kind;
  using Kind = wire::MpiKind;

  RecordedMpiCall(wire::MpiSegment& segment, wire::MpiThread& thread, MpiWord* words, MpiCaller caller)
      : segment_(segment),
        thread_(thread),
        words_(words),
        site_(mpi_site_in_program(segment, caller, static_cast<uint32_t>(kFunction))),
        caller_(caller.address) {}

  void begins() {
    if constexpr (kIsPoll) {
      mark_requests();
      need_status();
      return;
    }
    write_arguments(thread_.call);
    if constexpr (kIsCollective) {
      enter_collective();
    } else if constexpr (kKind == Kind::send || kKind == Kind::receive || kKind == Kind::send_receive) {
      enter_message(thread_.call, kKind == Kind::receive);
      if constexpr (kKind == Kind::send_receive) {
        write_receive_of_both();
      }
    } else if constexpr (kKind == Kind::probe || kKind == Kind::claim) {
      put(thread_.call.sequence, uint64_t{0});
    }
    const uint64_t steps = get(thread_.steps) + 1;
    put(thread_.steps, steps);
    if constexpr (kIsWait) {
      mark_requests();
    }
    need_status();
    const uint64_t sequence = kIsCollective ? get(thread_.call.sequence) : 0;
    if (((sequence != 0 ? sequence : steps >> 1) & get(thread_.untimed)) == 0) {
      begin_ns_ = now_ns();
    }
    thread_.call.function.store(static_cast<uint32_t>(kFunction), std::memory_order_release);
  }

  void ends(int result) {
    const uint64_t end_ns = begin_ns_ != 0 ? now_ns() : 0;
    put(thread_.error, uint32_t{0});
    if constexpr (kIsPoll) {
      // A test of nothing, or a look at a message that stays where it is, gets nobody further.
      if (kHasRequests && !some_request_) {
        return;
      }
      if (result != 0 || !found()) {
        put(thread_.polls, get(thread_.polls) + 1);
        if constexpr (kKind == Kind::poll_probe || kKind == Kind::poll_claim) {
          write_arguments(thread_.polled);
          put(thread_.polled_at, get(thread_.steps));
          thread_.polled.function.store(static_cast<uint32_t>(kFunction), std::memory_order_release);
        }
        return;
      }
    }
    if constexpr (kKind == Kind::poll_probe) {
      return;
    }
    if (result == 0) {
      succeeded();
    }
    const uint64_t bytes =
        kInfo.at.type == wire::kNoArgument ? 0 : get(thread_.call.count) * t_mpi.type_bytes;
    if (site_ != nullptr) {
      add(site_->calls, 1);
      add(site_->bytes, bytes);
    }
    if (end_ns != 0) {
      add_timed_mpi_call(thread_, site_, timed(bytes, end_ns));
    }
    if constexpr (kIsCollective) {
      if (comm_ != wire::kMpiNoComm) {
        put(segment_.comms[comm_].open, uint32_t{0});
      }
    }
    if constexpr (kKind == Kind::send_receive) {
      put(thread_.other.function, uint32_t{0});
    }
    if constexpr (!kIsPoll) {
      thread_.call.function.store(0, std::memory_order_release);
    }
    thread_.steps.store(get(thread_.steps) + 1, std::memory_order_release);
  }

 private:
  static constexpr bool kIsCollective =
      kKind == Kind::collective || kKind == Kind::async_collective || kKind == Kind::make_comm ||
      kKind == Kind::make_window || kKind == Kind::end || kKind == Kind::window || kKind == Kind::end_window;
  static constexpr bool kIsPoll = kKind == Kind::test || kKind == Kind::test_all || kKind == Kind::test_any ||
                                  kKind == Kind::test_some || kKind == Kind::poll_probe ||
                                  kKind == Kind::poll_claim;
  static constexpr bool kIsWait =
      kKind == Kind::wait || kKind == Kind::wait_all || kKind == Kind::wait_any || kKind == Kind::wait_some;
  static constexpr bool kIsOne = kKind == Kind::wait || kKind == Kind::test;
  static constexpr bool kHasRequests =
      kIsWait || (kIsPoll && kKind != Kind::poll_probe && kKind != Kind::poll_claim);
  static constexpr bool kOnWindow = kKind == Kind::window || kKind == Kind::end_window ||
                                    kKind == Kind::lock || kKind == Kind::lock_all || kKind == Kind::unlock ||
                                    kKind == Kind::unlock_all || kKind == Kind::flush ||
                                    kKind == Kind::window_wait;

  uint32_t find_comm() {
    if constexpr (kKind == Kind::end) {
      return 0;
    } else if constexpr (kOnWindow) {
      constexpr uint8_t kAt = kKind == Kind::end_window ? kInfo.at.handle : kInfo.at.comm;
      const MpiWord handle = kKind == Kind::end_window ? mpi_handle_at(words_[kAt]) : mpi_handle(words_[kAt]);
      window_ = mpi_window_index(handle);
      return window_ == kNoMpiEntry ? wire::kMpiNoComm : get(segment_.windows[window_].comm);
    } else if constexpr (kInfo.at.comm != wire::kNoArgument) {
      return mpi_comm_index(segment_, mpi_handle(words_[kInfo.at.comm]));
    } else {
      return wire::kMpiNoComm;
    }
  }

  // All but the function, which makes the record valid.
  void write_arguments(wire::MpiCall& call) {
    comm_ = find_comm();
    put(call.comm, comm_);
    put(call.window, window_ == kNoMpiEntry ? 0 : window_ + 1);
    if constexpr (kInfo.at.peer != wire::kNoArgument) {
      put(call.peer, mpi_peer(words_[kInfo.at.peer]));
    } else {
      put(call.peer, wire::kMpiNoRank);
    }
    if constexpr (kKind == Kind::lock) {
      put(call.tag, mpi_int(words_[kInfo.at.tag]) == g_mpi_abi.lock_exclusive ? 1 : 0);
    } else if constexpr (kInfo.at.tag != wire::kNoArgument) {
      put(call.tag, mpi_tag(words_[kInfo.at.tag]));
    } else {
      put(call.tag, 0);
    }
    if constexpr (kInfo.at.type != wire::kNoArgument) {
      put(call.count, static_cast<uint64_t>(static_cast<int64_t>(mpi_int(words_[kInfo.at.count]))));
      put(call.type, static_cast<uint32_t>(type_of(words_[kInfo.at.type])));
    } else {
      put(call.count, uint64_t{0});
      put(call.type, uint32_t{0});
    }
    put(call.sequence, uint64_t{0});
    put(call.called_ns, kIsCollective || kNeedsPeer ? coarse_now_ns() : 0);
    put(call.caller, caller_);
  }

  static wire::MpiType type_of(MpiWord word) {
    const MpiWord handle = mpi_handle(word);
    if (handle != t_mpi.type_handle) {
      t_mpi.type_handle = handle;
      t_mpi.type = mpi_type(handle);
      t_mpi.type_bytes = mpi_type_bytes(handle, t_mpi.type);
    }
    return t_mpi.type;
  }

  void enter_message(wire::MpiCall& call, bool receives) {
    const int32_t peer = get(call.peer);
    const int32_t tag = get(call.tag);
    const uint32_t comm = get(call.comm);
    uint64_t sequence = 0;
    if (peer >= 0 && tag >= 0 && comm != wire::kMpiNoComm) {
      sequence = next_mpi_message(segment_, {comm, receives, peer, tag});
    }
    put(call.sequence, sequence);
  }

  // The receive of MPI_Sendrecv and MPI_Sendrecv_replace.
  void write_receive_of_both() {
    constexpr bool kReplaces = kFunction == wire::MpiFunction::MPI_Sendrecv_replace;
    wire::MpiCall& other = thread_.other;
    copy_mpi_call(other, thread_.call);
    put(other.peer, mpi_peer(words_[kReplaces ? 5 : 8]));
    put(other.tag, mpi_tag(words_[kReplaces ? 6 : 9]));
    put(other.function, static_cast<uint32_t>(kFunction));
    enter_message(other, true);
  }

  void enter_collective() {
    if (comm_ == wire::kMpiNoComm) {
      return;
    }
    wire::MpiComm& comm = segment_.comms[comm_];
    const uint64_t sequence = get(comm.called) + 1;
    wire::MpiCall& slot = comm.collectives[sequence % wire::kMpiCollectives];
    slot.sequence.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    put(thread_.call.sequence, uint64_t{0});
    copy_mpi_call(slot, thread_.call);
    put(slot.function, static_cast<uint32_t>(kFunction));
    slot.sequence.store(sequence, std::memory_order_release);
    put(thread_.call.sequence, sequence);
    put(comm.open, uint32_t{1});
    comm.called.store(sequence, std::memory_order_release);
  }

  // A request meets the other ranks where it is waited for; a send where it begins.
  wire::MpiTime timed(uint64_t bytes, uint64_t end_ns) const {
    wire::MpiTime out{.begin_ns = begin_ns_,
                      .duration_ns = end_ns - begin_ns_,
                      .sequence = 0,
                      .bytes = bytes,
                      .caller = caller_,
                      .function = static_cast<uint32_t>(kFunction),
                      .comm = comm_,
                      .peer = wire::kMpiNoRank,
                      .tag = 0,
                      .receives = 0,
                      .tid = 0};
    const auto put_message = [&out](const wire::MpiCall& call, bool receives) {
      out.sequence = get(call.sequence);
      out.peer = get(call.peer);
      out.tag = get(call.tag);
      out.receives = receives ? 1 : 0;
    };
    if constexpr (kKind == Kind::send || kKind == Kind::async_send || kKind == Kind::receive ||
                  kKind == Kind::claim) {
      put_message(thread_.call, kKind == Kind::receive || kKind == Kind::claim);
    } else if constexpr (kKind == Kind::send_receive) {
      const bool receives = get(thread_.other.peer) >= 0;
      put_message(receives ? thread_.other : thread_.call, receives);
    } else if constexpr (kKind == Kind::wait) {
      if (requests_ == 1 && slots_[0] != 0xffff) {
        const wire::MpiRequest& r = segment_.requests[slots_[0]];
        const Kind made = wire::kMpiFunctions[get(r.call.function)].kind;
        if (made == Kind::async_receive || made == Kind::prepare_receive) {
          put_message(r.call, true);
          out.comm = get(r.call.comm);
        } else if (made == Kind::async_collective) {
          out.sequence = get(r.call.sequence);
          out.comm = get(r.call.comm);
        }
      }
    } else if constexpr (kIsCollective && kKind != Kind::async_collective) {
      out.sequence = get(thread_.call.sequence);
    }
    return out;
  }

  MpiWord request_at(uint32_t i) const { return mpi_handle_at(words_[kInfo.at.handle], i); }

  // Notes which requests the call waits for, because the call sets their handles to null.
  void mark_requests() {
    if constexpr (kHasRequests) {
      const int32_t count = kIsOne ? 1 : mpi_int(words_[kInfo.at.count]);
      requests_ = 0;
      open_sources_ = false;
      some_request_ = false;
      const uint64_t steps = get(thread_.steps);
      for (int32_t i = 0; i < count; ++i) {
        const MpiWord handle = request_at(static_cast<uint32_t>(i));
        const bool none = handle == g_mpi_abi.request_null;
        const uint32_t index = none ? kNoMpiEntry : find_mpi_request(handle);
        some_request_ = some_request_ || !none;
        if (static_cast<uint32_t>(i) < kMost) {
          slots_[i] = static_cast<uint16_t>(index == kNoMpiEntry ? 0xffff : index);
          requests_ = static_cast<uint32_t>(i) + 1;
        } else if (index != kNoMpiEntry) {
          end_mpi_request(index, nullptr);
          continue;
        }
        if (index != kNoMpiEntry) {
          wire::MpiRequest& r = segment_.requests[index];
          open_sources_ = open_sources_ || source_is_open(r);
          put(r.thread, t_mpi.slot - 1);
          put(r.waited_by, static_cast<uint32_t>(kFunction));
          put(r.waited_from, caller_);
          put(r.waited_at, steps);
        }
      }
    }
  }

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

  bool wants_source() const {
    if constexpr (kHasRequests) {
      return open_sources_;
    } else if constexpr (kKind == Kind::poll_claim) {
      return true;
    } else if constexpr (kKind == Kind::send_receive) {
      return get(thread_.other.sequence) == 0;
    } else {
      return get(thread_.call.sequence) == 0;
    }
  }

  // Where the program ignores the status, the ledger still needs to know where a message came from.
  void need_status() {
    constexpr uint8_t kAt = status_argument();
    if constexpr (kAt != wire::kNoArgument) {
      statuses_ = words_[kAt];
      if (statuses_ == g_mpi_abi.status_ignore && wants_source() &&
          (!kManyStatuses || requests_ <= kMostStatuses)) {
        statuses_ = reinterpret_cast<MpiWord>(own_statuses_);
        words_[kAt] = statuses_;
      }
    }
  }

  bool found() const {
    constexpr uint8_t kFlag =
        kKind == Kind::test                                                                 ? 1
        : kKind == Kind::test_any || kKind == Kind::poll_probe || kKind == Kind::poll_claim ? 3
                                                                                            : 2;
    if constexpr (kKind == Kind::test_some) {
      return mpi_int_at(words_[2]) > 0;
    } else {
      return mpi_int_at(words_[kFlag]) != 0;
    }
  }

  // Request number `i` of the array has completed; `status`: index of its status.
  void request_ended(uint32_t i, uint32_t status) {
    if (i >= requests_ || slots_[i] == 0xffff) {
      return;
    }
    wire::MpiRequest& r = segment_.requests[slots_[i]];
    if (!source_is_open(r) || statuses_ == g_mpi_abi.status_ignore) {
      end_mpi_request(slots_[i], nullptr);
      return;
    }
    const MpiSource source = mpi_source(statuses_, status);
    end_mpi_request(slots_[i], &source);
  }

  void requests_ended() {
    if constexpr (kKind == Kind::wait || kKind == Kind::test) {
      request_ended(0, 0);
    } else if constexpr (kKind == Kind::wait_all || kKind == Kind::test_all) {
      for (uint32_t i = 0; i < requests_; ++i) {
        request_ended(i, i);
      }
    } else if constexpr (kKind == Kind::wait_any || kKind == Kind::test_any) {
      const int32_t index = mpi_int_at(words_[2]);
      if (index >= 0) {
        request_ended(static_cast<uint32_t>(index), 0);
      }
    } else if constexpr (kKind == Kind::wait_some || kKind == Kind::test_some) {
      const int32_t done = mpi_int_at(words_[2]);
      for (int32_t i = 0; i < done; ++i) {
        const int32_t index = mpi_int_at(words_[3], static_cast<uint32_t>(i));
        if (index >= 0) {
          request_ended(static_cast<uint32_t>(index), static_cast<uint32_t>(i));
        }
      }
    }
  }

  void receive_ended() {
    if (comm_ == wire::kMpiNoComm || !wants_source() || statuses_ == g_mpi_abi.status_ignore) {
      return;
    }
    const MpiSource source = mpi_source(statuses_);
    if (source.peer >= 0 && source.tag >= 0) {
      const uint64_t number = next_mpi_message(segment_, {comm_, true, source.peer, source.tag});
      if constexpr (kKind == Kind::receive || kKind == Kind::claim || kKind == Kind::send_receive) {
        wire::MpiCall& call = kKind == Kind::send_receive ? thread_.other : thread_.call;
        put(call.peer, source.peer);
        put(call.tag, source.tag);
        put(call.sequence, number);
      }
    }
  }

  void begin_request(uint32_t index) {
    if (index != kNoMpiEntry) {
      wire::MpiRequest& r = segment_.requests[index];
      const auto function = static_cast<size_t>(get(r.call.function));
      enter_message(r.call, wire::kMpiFunctions[function].kind == Kind::prepare_receive);
      put(r.call.called_ns, coarse_now_ns());
      r.state.store(static_cast<uint32_t>(wire::MpiRequestState::pending), std::memory_order_release);
    }
  }

  void succeeded() {
    if constexpr (kHasRequests) {
      requests_ended();
    } else if constexpr (kKind == Kind::receive || kKind == Kind::claim || kKind == Kind::send_receive) {
      receive_ended();
    } else if constexpr (kKind == Kind::poll_claim) {
      comm_ = find_comm();
      receive_ended();
    } else if constexpr (kKind == Kind::async_send || kKind == Kind::async_receive ||
                         kKind == Kind::async_collective || kKind == Kind::prepare_send ||
                         kKind == Kind::prepare_receive) {
      wire::MpiCall& call = thread_.call;
      constexpr bool kPersistent = kKind == Kind::prepare_send || kKind == Kind::prepare_receive;
      if constexpr (kKind == Kind::async_send || kKind == Kind::async_receive) {
        enter_message(call, kKind == Kind::async_receive);
      }
      // A message to or from MPI_PROC_NULL is no message.
      if (comm_ != wire::kMpiNoComm && (!kNeedsPeer || get(call.peer) != wire::kMpiNoRank)) {
        add_mpi_request(mpi_handle_at(words_[kInfo.at.handle]), call, kPersistent);
      }
    } else if constexpr (kKind == Kind::begin) {
      begin_request(find_mpi_request(request_at(0)));
    } else if constexpr (kKind == Kind::begin_all) {
      for (int32_t i = 0; i < mpi_int(words_[kInfo.at.count]); ++i) {
        begin_request(find_mpi_request(request_at(static_cast<uint32_t>(i))));
      }
    } else if constexpr (kKind == Kind::make_comm) {
      add_mpi_comm(mpi_handle_at(words_[kInfo.at.handle]));
    } else if constexpr (kKind == Kind::make_window) {
      add_mpi_window(mpi_handle_at(words_[kInfo.at.handle]), comm_,
                     kFunction == wire::MpiFunction::MPI_File_open ? "file" : "window");
    } else if constexpr (kKind == Kind::name_comm) {
      if (comm_ != wire::kMpiNoComm) {
        strncpy(segment_.comms[comm_].name, reinterpret_cast<const char*>(words_[1]),
                sizeof(segment_.comms[comm_].name) - 1);
      }
    } else if constexpr (kKind == Kind::end_window) {
      if (window_ != kNoMpiEntry) {
        const auto ended = static_cast<uint32_t>(wire::MpiCommState::ended);
        segment_.windows[window_].state.store(ended);
        segment_.comms[comm_].state.store(ended);
      }
    } else if constexpr (kKind == Kind::lock || kKind == Kind::lock_all) {
      if (window_ != kNoMpiEntry) {
        const bool one = kKind == Kind::lock;
        add_mpi_lock(window_, one ? get(thread_.call.peer) : wire::kMpiAny,
                     one && get(thread_.call.tag) != 0);
      }
    } else if constexpr (kKind == Kind::unlock || kKind == Kind::unlock_all) {
      if (window_ != kNoMpiEntry) {
        end_mpi_lock(window_, kKind == Kind::unlock ? get(thread_.call.peer) : wire::kMpiAny);
      }
    } else if constexpr (kKind == Kind::commit_type) {
      mpi_type_committed(mpi_handle_at(words_[kInfo.at.handle]));
    } else if constexpr (kKind == Kind::end) {
      segment_.ended.store(1);
    }
  }

  static constexpr bool kNeedsPeer = kKind == Kind::async_send || kKind == Kind::async_receive ||
                                     kKind == Kind::prepare_send || kKind == Kind::prepare_receive;
  static constexpr uint32_t kMost = kIsOne ? 1 : kHasRequests ? kMostMpiRequests : 1;

  wire::MpiSegment& segment_;
  wire::MpiThread& thread_;
  MpiWord* words_;
  wire::MpiSite* site_;
  uint64_t caller_;
  uint64_t begin_ns_ = 0;  // 0: the call is not timed
  uint32_t comm_ = wire::kMpiNoComm;
  uint32_t window_ = kNoMpiEntry;
  uint32_t requests_ = 0;
  bool some_request_ = false;
  bool open_sources_ = false;
  MpiWord statuses_ = 0;
  uint16_t slots_[kMost];
  alignas(8) char own_statuses_[kMpiStatusBytes * kMostStatuses];
};

}  // namespace xpurun::preload
