#include "common/model/language/vocabulary_words.h"

#include "common/model/speed/gpu_capture.h"
#include "common/model/speed/link_class.h"
#include "common/model/speed/pipeline.h"
#include "common/model/timing/span.h"
#include "common/model/timing/speed_report.h"

#include <algorithm>
#include <array>

namespace xpurun::model {

using base::later;

namespace {

constexpr std::array kWords = {
    later("other"),       later("rank"),         later("worker"),        later("agent"),
    later("child"),       later("running"),      later("exit"),          later("signal"),
    later("hang"),        later("spawn_failed"), later("interrupted"),   later("slow"),
    later("detached"),    later("request"),      later("crash"),         later("death"),
    later("terminated"),  later("ok"),           later("partial"),       later("failed"),
    later("timeout"),     later("dead"),         later("stuck"),         later("moving"),
    later("none"),        later("exception"),    later("suspected"),     later("confirmed"),
    later("low"),         later("medium"),       later("high"),          later("stopped"),
    later("busy"),        later("waiting"),      later("silent"),        later("uninterruptible"),
    later("called"),      later("launched"),     later("started"),       later("done"),
    later("complete"),    later("cut_off"),      later("data"),          later("forward"),
    later("backward"),    later("optimizer"),    later("communication"), later("checkpoint"),
    later("evaluation"),  later("garbage"),      later("function"),      later("mark"),
    later("collectives"), later("weight"),       later("kernel"),        later("collective"),
    later("memory"),      later("call"),         later("inside a node"), later("between nodes"),
    later("mismatch"),    later("replays"),
};

// A name that is added to a vocabulary is added here, and so to the catalogue.
template <typename E>
constexpr bool all_marked() {
  return std::all_of(kNames<E>.begin(), kNames<E>.end(), [](std::string_view name) {
    return name.empty() || std::find(kWords.begin(), kWords.end(), name) != kWords.end();
  });
}

static_assert(all_marked<ProcessRole>());
static_assert(all_marked<RunOutcome>());
static_assert(all_marked<DumpReason>());
static_assert(all_marked<DumpStatus>());
static_assert(all_marked<Motion>());
static_assert(all_marked<VerdictKind>());
static_assert(all_marked<VerdictLevel>());
static_assert(all_marked<Confidence>());
static_assert(all_marked<RankState>());
static_assert(all_marked<CallStage>());
static_assert(all_marked<NodeStatus>());
static_assert(all_marked<Stage>());
static_assert(all_marked<StepSource>());
static_assert(all_marked<JobKind>());
static_assert(all_marked<WorkKind>());
static_assert(all_marked<LinkClass>());

}  // namespace

}  // namespace xpurun::model
