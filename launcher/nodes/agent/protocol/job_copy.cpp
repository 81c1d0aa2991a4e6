#include "launcher/nodes/agent/protocol/job_copy.h"

#include "launcher/nodes/node_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace xpurun::nodes {

using namespace launcher;
using base::s_to_ns;

namespace {

// No other request has this ending, because '+' cannot occur in a subject's word.
constexpr std::string_view kCopySuffix = "+job";

// Packed together, the stacks that nodes have in common count once: 4.5 times smaller (bench/RESULTS.md).
constexpr uint64_t kTogetherSmaller = 4;

std::string copy_of(const std::string& request) {
  return request + std::string(kCopySuffix);
}

}  // namespace

bool may_become_small(uint64_t bytes, size_t others) {
  return may_hand_out(bytes / kTogetherSmaller, others);
}

bool may_hand_out(uint64_t bytes, size_t others) {
  return others > 0 && bytes <= kMostJobFilesBytes && bytes <= kMostHandedOutBytes / others;
}

bool JobCopy::is_copy(std::string_view request) {
  return request.ends_with(kCopySuffix);
}

bool JobCopy::hand_out(const GatheredMessage& gathered, uint64_t bytes) {
  hand_out_.reset();
  HandOut out{.request = gathered.request, .until = now() + s_to_ns(kHandOutS)};
  for (const auto& [name, m] : members_.others()) {
    if (members_.alive(m, now())) {
      out.waiting.insert(name);
    }
  }
  const size_t others = out.waiting.size();
  if (!may_become_small(bytes, others)) {
    return false;
  }
  hand_out_ = std::move(out);
  outlet_.pack_job({.run_directory = start_.directory, .node = start_.node, .gathered = gathered},
                   [this, request = gathered.request, others](std::string archive) {
                     if (!hand_out_ || hand_out_->request != request) {
                       return;
                     }
                     Offer offer{.request = copy_of(request)};
                     if (archive.empty() || !may_hand_out(archive.size(), others)) {
                       offer.status = DumpOutcome::failed;
                       offer.reason = "the data of all nodes is too large to be handed out";
                       archive.clear();
                     }
                     hand_out_->files =
                         std::make_unique<Upload>(std::move(offer), std::move(archive), chunk_, now());
                     advance();
                   });
  return true;
}

bool JobCopy::wanted(const Member& from, const Want& want) {
  if (!hand_out_ || !hand_out_->files) {
    return true;  // it is over
  }
  if (hand_out_->took.count(from.node) != 0) {
    return false;
  }
  for (Part& part : hand_out_->files->wanted(want, now())) {
    outlet_.to_node(from.node, std::move(part));
  }
  return true;
}

bool JobCopy::taken(const Member& from, const Taken& taken) {
  if (hand_out_ && taken.request == copy_of(hand_out_->request)) {
    hand_out_->waiting.erase(from.node);
    hand_out_->took.insert(from.node);
  }
  return true;
}

void JobCopy::expect(const Member& judge, const std::string& request) {
  fetch_ = Fetch{.request = request,
                 .judge = judge.node,
                 .instance = judge.instance,
                 .until = now() + s_to_ns(kHandOutS)};
}

bool JobCopy::offered(const Member& from, const Offer& offer) {
  if (offer.request == over_) {
    outlet_.to_node(from.node, Taken{.request = offer.request});
    return true;
  }
  if (!fetch_ || offer.request != copy_of(fetch_->request)) {
    return true;  // the verdict of this round has not arrived yet
  }
  if (from.node != fetch_->judge || from.instance != fetch_->instance || offer.size > kMostJobFilesBytes) {
    return false;
  }
  if (offer.status == DumpOutcome::failed) {
    outlet_.to_node(from.node, Taken{.request = offer.request});
    end_fetch(offer.reason);
    return true;
  }
  if (!fetch_->gather) {
    fetch_->gather = std::make_unique<Gather>(DumpCall{.request = offer.request}, kHandOutS, now());
    fetch_->gather->expect({.node = from.node}, true);
  }
  return fetch_->gather->offered(from.node, offer);
}

bool JobCopy::received(const Member& from, const Part& part) {
  if (!fetch_ || !fetch_->gather) {
    return true;  // belongs to an archive whose transfer is over
  }
  return from.node == fetch_->judge && fetch_->gather->received(from.node, part, now());
}

void JobCopy::unpack(std::string archive) {
  fetch_->unpacking = true;
  outlet_.to_node(fetch_->judge, Taken{.request = copy_of(fetch_->request)});
  outlet_.unpack_job(
      fetch_->judge, std::move(archive),
      [this, request = fetch_->request](base::Result<GatheredMessage> result) {
        if (!fetch_ || fetch_->request != request) {
          return;
        }
        if (!result) {
          end_fetch(to_line(result.error()));
          return;
        }
        over_ = copy_of(request);
        fetch_.reset();
        outlet_.to_supervisor(JobFilesMessage{.request = request, .nodes = std::move(result->nodes)});
      });
}

void JobCopy::end_fetch(const std::string& reason) {
  const std::string request = fetch_->request;
  over_ = copy_of(request);
  fetch_.reset();
  outlet_.to_supervisor(JobFilesMessage{.request = request, .reason = reason});
}

void JobCopy::advance_fetch() {
  if (fetch_->unpacking) {
    return;
  }
  if (now() >= fetch_->until) {
    end_fetch(fmt::format("the data of all nodes has not come within {:.0f} s", kHandOutS));
    return;
  }
  if (!fetch_->gather) {
    return;
  }
  if (auto archive = fetch_->gather->take_complete()) {
    unpack(std::move(archive->bytes));
    return;
  }
  if (fetch_->gather->done_with(fetch_->judge)) {
    end_fetch("the data of all nodes does not match its hash");
    return;
  }
  for (auto& [node, want] : fetch_->gather->wants(now())) {
    outlet_.to_node(node, std::move(want));
  }
}

void JobCopy::advance_hand_out() {
  std::erase_if(hand_out_->waiting, [this](const std::string& name) {
    const Member* m = members_.find(name);
    return m == nullptr || !members_.alive(*m, now());
  });
  const bool late = now() >= hand_out_->until;
  if (hand_out_->waiting.empty() || late) {
    const std::string request = hand_out_->request;
    const size_t missing = hand_out_->waiting.size();
    hand_out_.reset();
    outlet_.to_supervisor(JobFilesMessage{
        .request = request, .reason = late ? fmt::format("{} nodes have not taken it", missing) : ""});
  } else if (hand_out_->files) {
    if (const auto offer = hand_out_->files->due(now())) {
      outlet_.to_all(*offer);
    }
  }
}

void JobCopy::advance() {
  if (hand_out_) {
    advance_hand_out();
  }
  if (fetch_) {
    advance_fetch();
  }
}

}  // namespace xpurun::nodes
