// The field lists of Verdict and its parts, for the .cpp files that read or write a file with a verdict.
#pragma once

#include "common/model/json_visitors.h"
#include "common/model/verdict.h"

namespace xpurun::model {

// A part that is written if it is present, and read if it is there.
template <typename V, typename Part>
void present_only(V& visit, const char* key, Part& part, bool present) {
  visit.optional(key, part, present);
}

template <typename V, Self<CodeLocation> L>
void fields(V& visit, L& where) {
  visit("function", where.function);
  visit("file", where.file);
  visit("line", where.line);
  visit("callee", where.callee);
  visit("target", where.target, WhenEmpty::omit);
  visit("native", where.native, WhenEmpty::omit);
  visit("native_file", where.native_file, WhenEmpty::omit);
  visit("native_line", where.native_line, WhenEmpty::omit);
}

template <typename V, Self<Waiting> W>
void fields(V& visit, W& w) {
  visit("ranks", w.ranks);
  visit("what", w.what);
  visit("where", w.where);
}

template <typename V, Self<CalledBy> C>
void fields(V& visit, C& c) {
  visit("ranks", c.ranks);
  visit("communicator", c.communicator, WhenEmpty::omit);
  visit("sequence", c.sequence);
  visit("op", c.op);
  visit("name", c.name, WhenEmpty::omit);
  visit("count", c.count);
  visit("dtype", c.dtype);
  visit.optional("root", c.root);
  visit.optional("peer", c.peer);
  visit("tag", c.tag, WhenEmpty::omit);
  visit("reduce", c.reduce, WhenEmpty::omit);
  visit("holders", c.holders, WhenEmpty::omit);
  visit("stage", c.stage);
  visit("where", c.where);
  visit("thread", c.thread, WhenEmpty::omit);
  visit("in_handler", c.in_handler, WhenEmpty::omit);
  visit("group_ranks", c.group_ranks, WhenEmpty::omit);
  visit("sizes", c.sizes, WhenEmpty::omit);
}

template <typename V, Self<VerdictCollective> C>
void fields(V& visit, C& c) {
  visit("source", c.source);
  visit("id", c.id);
  visit("name", c.name);
  visit("kind", c.kind);
  visit("ranks", c.ranks);
  visit("size", c.size);
  visit("op", c.op);
  visit("sequence", c.sequence);
  visit("calls", c.calls);
  visit("departure", c.departure, WhenEmpty::omit);
  present_only(visit, "departing", c.departing, c.departing.entered());
  present_only(visit, "expected", c.expected, c.expected.entered());
  visit("repeated", c.repeated, WhenEmpty::omit);
}

template <typename V, Self<LogTail> L>
void fields(V& visit, L& l) {
  visit("file", l.file);
  visit("lines", l.lines);
  visit("shared", l.shared, WhenEmpty::omit);
  visit("reason", l.reason, WhenEmpty::omit);
}

template <typename V, Self<VerdictException> E>
void fields(V& visit, E& e) {
  visit("type", e.type);
  visit("message", e.message);
  visit("traceback", e.traceback);
  visit("thread", e.thread);
  visit("time", e.time);
}

template <typename V, Self<Slowness> S>
void fields(V& visit, S& s) {
  visit("cause", s.cause);
  visit("share", s.share);
  visit("lost_s", s.lost_s);
  visit("step", s.step);
  visit("since", s.since);
  visit("until_step", s.until_step, WhenEmpty::omit);
  visit("until", s.until, WhenEmpty::omit);
}

template <typename V, Self<HeldMemory> M>
void fields(V& visit, M& m) {
  visit("where", m.where);
  visit("bytes", m.bytes);
  visit("grown_a_step", m.grown_a_step);
}

template <typename V, Self<HostRanks> H>
void fields(V& visit, H& h) {
  visit("host", h.host);
  visit("ranks", h.ranks);
}

template <typename T, Self<Verdict> V>
void fields(T& visit, V& v) {
  visit.derived("schema", kVerdictSchema);
  visit("id", v.id);
  visit("kind", v.kind);
  visit("level", v.level);
  visit("ranks", v.ranks);
  visit("state", v.state);
  visit("host", v.host);
  visit("hosts", v.hosts, WhenEmpty::omit);
  visit("pid", v.pid);
  visit("signal", v.signal, WhenEmpty::omit);
  visit.optional("exit_code", v.exit_code);
  visit("sentence", v.sentence);
  visit("headline", v.headline);
  visit("title", v.title);
  visit("where", v.where);
  visit("waiting", v.waiting);
  present_only(visit, "collective", v.collective, v.collective.present());
  visit("seconds", v.seconds);
  visit("since", v.since);
  visit("dump", v.dump);
  visit("confidence", v.confidence);
  visit("evidence", v.evidence);
  visit("details", v.details, WhenEmpty::omit);
  present_only(visit, "exception", v.exception, v.exception.present());
  present_only(visit, "slow", v.slow, v.slow.present());
  present_only(visit, "memory", v.memory, v.memory.present());
  visit("log_tail", v.log_tail, WhenEmpty::omit);
  // "next" serves people and readers of older versions; the other two members are its parts.
  visit.derived("next", v.next.line());
  visit.fallback("next", "next_command", v.next.text);
  visit("next_text", v.next.text);
  visit("next_command", v.next.command);
}

}  // namespace xpurun::model
