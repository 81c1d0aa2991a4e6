// One MPI call from begin to end: what goes into the ledger before and after it, by the kind of its function.
#pragma once

#include "preload/mpi/call_traits.h"
#include "preload/mpi/ledger.h"

#include <string.h>

namespace xpurun::preload {

// The call in progress. `words`: its arguments, which the recorder may replace (a status that the program
// does not want, but the ledger needs).
template <wire::MpiFunction kFunction>
class RecordedMpiCall {
 public:
  static constexpr wire::MpiFunctionInfo kInfo = wire::kMpiFunctions[static_cast<size_t>(kFunction)];
  static constexpr wire::MpiKind kKind = kInfo.kind;
  using Kind = wire::MpiKind;
  using Traits = MpiCallTraits<kFunction>;

  RecordedMpiCall(wire::MpiSegment& segment, wire::MpiThread& thread, MpiWord* words, MpiCaller caller)
      : segment_(segment),
        thread_(thread),
        words_(words),
        site_(mpi_site_in_program(segment, caller, static_cast<uint32_t>(kFunction))),
        caller_(caller.address) {}

  void begins() {
    if constexpr (Traits::kIsPoll) {
      mark_requests();
      need_status();
      await_polled();
      return;
    }
    write_arguments(thread_.call);
    mark_ready();
    if constexpr (Traits::kIsCollective) {
      enter_collective();
      write_message_of_leader();
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
    if constexpr (Traits::kIsWait) {
      mark_requests();
    }
    epoch_begins();
    need_status();
    const uint64_t sequence = Traits::kIsCollective ? get(thread_.call.sequence) : 0;
    if (((sequence != 0 ? sequence : steps >> 1) & get(thread_.untimed)) == 0) {
      begin_ns_ = now_ns();
    }
    thread_.call.function.store(static_cast<uint32_t>(kFunction), std::memory_order_release);
  }

  void ends(int result) {
    const uint64_t end_ns = begin_ns_ != 0 ? now_ns() : 0;
    put(thread_.error, uint32_t{0});
    if constexpr (Traits::kIsPoll) {
      // A test of nothing, or a look at a message that stays where it is, gets nobody further.
      if (Traits::kHasRequests && !some_request_) {
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
    if constexpr (Traits::kIsCollective) {
      if (comm_ != wire::kMpiNoComm) {
        put(segment_.comms[comm_].open, uint32_t{0});
      }
    }
    if constexpr (kKind == Kind::send_receive || kKind == Kind::join_groups) {
      put(thread_.other.function, uint32_t{0});
    }
    if constexpr (!Traits::kIsPoll) {
      thread_.call.function.store(0, std::memory_order_release);
    }
    thread_.steps.store(get(thread_.steps) + 1, std::memory_order_release);
  }

 private:
  uint32_t find_comm() {
    if constexpr (kKind == Kind::end) {
      return 0;
    } else if constexpr (Traits::kOnWindow) {
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
    put(call.called_ns, Traits::kIsCollective || Traits::kNeedsPeer ? coarse_now_ns() : 0);
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

  // All partitions of a message are ready: the message goes.
  void mark_ready() {
    if constexpr (kKind == Kind::ready || kKind == Kind::ready_range || kKind == Kind::ready_list) {
      const uint32_t index = find_mpi_request(mpi_handle(words_[kInfo.at.handle]));
      if (index == kNoMpiEntry) {
        return;
      }
      wire::MpiRequest& r = segment_.requests[index];
      const int32_t more = kKind == Kind::ready         ? 1
                           : kKind == Kind::ready_range ? mpi_int(words_[1]) - mpi_int(words_[0]) + 1
                                                        : mpi_int(words_[0]);
      // Threads of the program share the work.
      const uint32_t before = r.ready.fetch_add(static_cast<uint32_t>(more));
      const uint32_t wanted = get(r.partitions);
      if (before < wanted && before + static_cast<uint32_t>(more) >= wanted) {
        enter_message(r.call, false);
      }
    }
  }

  void epoch_begins() {
    if (window_ == kNoMpiEntry) {
      return;
    }
    if constexpr (kKind == Kind::post) {
      begin_mpi_epoch(window_, MpiEpoch::exposure, mpi_handle(words_[0]), thread_.call);
      tell_mpi_epoch(window_, MpiEpoch::exposure, wire::kMpiPosted);
    } else if constexpr (kKind == Kind::access) {
      begin_mpi_epoch(window_, MpiEpoch::access, mpi_handle(words_[0]), thread_.call);
      await_mpi_epoch(window_, MpiEpoch::access, thread_, kFunction);
    } else if constexpr (kKind == Kind::complete) {
      tell_mpi_epoch(window_, MpiEpoch::access, wire::kMpiCompleted);
      await_mpi_epoch(window_, MpiEpoch::access, thread_, kFunction);
    } else if constexpr (kKind == Kind::flush) {
      await_mpi_epoch(window_, MpiEpoch::access, thread_, kFunction);
    } else if constexpr (kKind == Kind::window_wait) {
      await_mpi_epoch(window_, MpiEpoch::exposure, thread_, kFunction);
    }
  }

  // What MPI_Win_test and MPI_Parrived look for.
  void await_polled() {
    if constexpr (kKind == Kind::window_test) {
      comm_ = find_comm();
      if (window_ != kNoMpiEntry) {
        await_mpi_epoch(window_, MpiEpoch::exposure, thread_, kFunction);
      }
    } else if constexpr (kKind == Kind::poll_part) {
      const uint32_t index = find_mpi_request(mpi_handle(words_[kInfo.at.handle]));
      if (index != kNoMpiEntry) {
        await_request(segment_.requests[index]);
      }
    }
  }

  void await_request(wire::MpiRequest& r) {
    put(r.thread, t_mpi.slot - 1);
    put(r.waited_by, static_cast<uint32_t>(kFunction));
    put(r.waited_from, caller_);
    put(r.waited_at, get(thread_.steps));
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

  // MPI_Intercomm_create: local communicator, leader, the communicator of both leaders, the other leader,
  // tag.
  void write_message_of_leader() {
    if constexpr (kKind == Kind::join_groups) {
      const uint32_t peers = mpi_comm_index(segment_, mpi_handle(words_[2]));
      if (comm_ == wire::kMpiNoComm || peers == wire::kMpiNoComm ||
          get(segment_.comms[comm_].rank) != mpi_int(words_[1])) {
        return;
      }
      wire::MpiCall& other = thread_.other;
      copy_mpi_call(other, thread_.call);
      put(other.comm, peers);
      put(other.peer, mpi_peer(words_[3]));
      put(other.tag, mpi_tag(words_[4]));
      enter_message(other, false);
      enter_message(other, true);
      put(other.function, static_cast<uint32_t>(kFunction));
    }
  }

  void enter_collective() {
    if (comm_ != wire::kMpiNoComm) {
      wire::MpiComm& comm = segment_.comms[comm_];
      const uint64_t sequence = add_collective(comm, thread_.call, static_cast<uint32_t>(kFunction));
      put(comm.open, uint32_t{1});
      comm.called.store(sequence, std::memory_order_release);
    }
  }

  // Returns its number; the caller makes that known.
  static uint64_t add_collective(wire::MpiComm& comm, wire::MpiCall& call, uint32_t function) {
    const uint64_t sequence = get(comm.called) + 1;
    wire::MpiCall& slot = comm.collectives[sequence % wire::kMpiCollectives];
    slot.sequence.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    put(call.sequence, uint64_t{0});
    copy_mpi_call(slot, call);
    put(slot.function, function);
    slot.sequence.store(sequence, std::memory_order_release);
    put(call.sequence, sequence);
    return sequence;
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
    } else if constexpr (Traits::kIsCollective && kKind != Kind::async_collective) {
      out.sequence = get(thread_.call.sequence);
    }
    return out;
  }

  MpiWord request_at(uint32_t i) const { return mpi_handle_at(words_[kInfo.at.handle], i); }

  // Notes which requests the call waits for, because the call sets their handles to null.
  void mark_requests() {
    if constexpr (Traits::kHasRequests) {
      const int32_t count = Traits::kIsOne ? 1 : mpi_int(words_[kInfo.at.count]);
      requests_ = 0;
      open_sources_ = false;
      some_request_ = false;
      for (int32_t i = 0; i < count; ++i) {
        const MpiWord handle = request_at(static_cast<uint32_t>(i));
        const bool none = handle == g_mpi_abi.request_null;
        const uint32_t index = none ? kNoMpiEntry : find_mpi_request(handle);
        some_request_ = some_request_ || !none;
        if (static_cast<uint32_t>(i) < Traits::kMost) {
          slots_[i] = static_cast<uint16_t>(index == kNoMpiEntry ? 0xffff : index);
          requests_ = static_cast<uint32_t>(i) + 1;
        } else if (index != kNoMpiEntry) {
          end_mpi_request(index, nullptr);
          continue;
        }
        if (index != kNoMpiEntry) {
          wire::MpiRequest& r = segment_.requests[index];
          open_sources_ = open_sources_ || source_is_open(r);
          await_request(r);
        }
      }
    }
  }

  bool wants_source() const {
    if constexpr (Traits::kHasRequests) {
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
    constexpr uint8_t kAt = Traits::status_argument();
    if constexpr (kAt != wire::kNoArgument) {
      statuses_ = words_[kAt];
      if (statuses_ == g_mpi_abi.status_ignore && wants_source() &&
          (!Traits::kManyStatuses || requests_ <= Traits::kMostStatuses)) {
        statuses_ = reinterpret_cast<MpiWord>(own_statuses_);
        words_[kAt] = statuses_;
      }
    }
  }

  bool found() const {
    constexpr uint8_t kFlag =
        kKind == Kind::test || kKind == Kind::window_test                                   ? 1
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
      const uint32_t function = get(r.call.function);
      const Kind made = wire::kMpiFunctions[function].kind;
      put(r.call.called_ns, coarse_now_ns());
      if (get(r.partitions) > 0) {
        put(r.ready, uint32_t{0});
        put(r.call.sequence, uint64_t{0});
      } else if (made != Kind::prepare_collective) {
        enter_message(r.call, made == Kind::prepare_receive);
      } else if (get(r.call.comm) < wire::kMpiComms) {
        wire::MpiComm& comm = segment_.comms[get(r.call.comm)];
        put(r.call.tag, wire::kMpiStarted);
        comm.called.store(add_collective(comm, r.call, function), std::memory_order_release);
      }
      r.state.store(static_cast<uint32_t>(wire::MpiRequestState::pending), std::memory_order_release);
    }
  }

  void succeeded() {
    if constexpr (Traits::kHasRequests) {
      requests_ended();
    } else if constexpr (kKind == Kind::receive || kKind == Kind::claim || kKind == Kind::send_receive) {
      receive_ended();
    } else if constexpr (kKind == Kind::poll_claim) {
      comm_ = find_comm();
      receive_ended();
    } else if constexpr (kKind == Kind::async_send || kKind == Kind::async_receive ||
                         kKind == Kind::async_collective || kKind == Kind::prepare_send ||
                         kKind == Kind::prepare_receive || kKind == Kind::prepare_collective) {
      wire::MpiCall& call = thread_.call;
      constexpr bool kPersistent =
          kKind == Kind::prepare_send || kKind == Kind::prepare_receive || kKind == Kind::prepare_collective;
      if constexpr (kKind == Kind::async_send || kKind == Kind::async_receive) {
        enter_message(call, kKind == Kind::async_receive);
      }
      // A message to or from MPI_PROC_NULL is no message.
      if (comm_ != wire::kMpiNoComm && (!Traits::kNeedsPeer || get(call.peer) != wire::kMpiNoRank)) {
        const uint32_t index = add_mpi_request(mpi_handle_at(words_[kInfo.at.handle]), call, kPersistent);
        if (kFunction == wire::MpiFunction::MPI_Psend_init && index != kNoMpiEntry) {
          put(segment_.requests[index].partitions, static_cast<uint32_t>(mpi_int(words_[1])));
        }
      }
    } else if constexpr (kKind == Kind::begin) {
      begin_request(find_mpi_request(request_at(0)));
    } else if constexpr (kKind == Kind::begin_all) {
      for (int32_t i = 0; i < mpi_int(words_[kInfo.at.count]); ++i) {
        begin_request(find_mpi_request(request_at(static_cast<uint32_t>(i))));
      }
    } else if constexpr (Traits::kMakesComm) {
      add_mpi_comm(mpi_handle_at(words_[kInfo.at.handle]));
    } else if constexpr (kKind == Kind::parent) {
      const MpiWord handle = mpi_handle_at(words_[kInfo.at.handle]);
      if (mpi_comm_index(segment_, handle) == wire::kMpiNoComm) {
        add_mpi_comm(handle);
      }
    } else if constexpr (kKind == Kind::complete || kKind == Kind::window_wait ||
                         kKind == Kind::window_test) {
      if (window_ != kNoMpiEntry) {
        end_mpi_epoch(window_, kKind == Kind::complete ? MpiEpoch::access : MpiEpoch::exposure);
      }
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
  uint16_t slots_[Traits::kMost];
  alignas(8) char own_statuses_[kMpiStatusBytes * Traits::kMostStatuses];
};

}  // namespace xpurun::preload
