// Field lists of PythonException, for the .cpp files of common/model that write files with exceptions.
#pragma once

#include "common/model/exception.h"
#include "common/model/json_visitors.h"

namespace xpurun::model {

template <typename V, Self<PythonFrame> F>
void fields(V& visit, F& f) {
  visit("file", f.file);
  visit("line", f.line);
  visit("function", f.function);
  visit("source", f.source, WhenEmpty::omit);
}

template <typename V, Self<PortHolder> H>
void fields(V& visit, H& h) {
  visit("port", h.port);
  visit("pid", h.pid);
  visit("command", h.command);
}

template <typename V, Self<ExceptionLink> L>
void fields(V& visit, L& l) {
  visit("relation", l.relation);
  visit("type", l.type);
  visit("message", l.message);
  visit("frames", l.frames);
  visit("left_out", l.left_out, WhenEmpty::omit);
  visit("largest_free", l.largest_free, WhenEmpty::omit);
  visit("port_holder", l.port_holder, WhenEmpty::omit);
}

template <typename V, Self<PythonException> E>
void fields(V& visit, E& e) {
  visit("kind", e.kind);
  visit("pid", e.pid);
  visit("tid", e.tid);
  visit.rank("rank", e.rank);
  visit("thread", e.thread);
  visit("at_s", e.at_s);
  visit("wall_ns", e.wall_ns);
  visit.optional("code", e.code);
  visit("chain", e.chain);
}

}  // namespace xpurun::model
