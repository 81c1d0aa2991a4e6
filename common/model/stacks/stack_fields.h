// The field lists of a stacks file, for the .cpp files of this room. The same lists write and read frames as
// objects and as columns. The frames of a thread are not among its fields, because their form depends on the
// file's version.
#pragma once

#include "common/model/exception_fields.h"
#include "common/model/json_visitors.h"
#include "common/model/stack_snapshot.h"

namespace xpurun::model {

template <typename V, Self<Local> L>
void fields(V& visit, L& l) {
  visit("name", l.name);
  visit("value", l.value);
  visit("pyspy", l.pyspy, WhenEmpty::omit);
  visit.hex("address", l.address, WhenEmpty::omit);
  visit("argument", l.argument, WhenEmpty::omit);
}

template <typename V, Self<Frame> F>
void fields(V& visit, F& f) {
  visit("kind", f.kind);
  visit("func", f.func);
  visit("full_func", f.full_func, WhenEmpty::omit);
  visit("file", f.file, WhenEmpty::omit);
  visit("line", f.line, WhenEmpty::omit);
  visit("column", f.column, WhenEmpty::omit);
  visit("end_line", f.end_line, WhenEmpty::omit);
  visit("end_column", f.end_column, WhenEmpty::omit);
  visit("callee", f.callee, WhenEmpty::omit);
  visit("module", f.module, WhenEmpty::omit);
  visit("build_id", f.build_id, WhenEmpty::omit);
  if constexpr (requires { visit.address(f.pc, f.offset, f.begin); }) {
    visit.address(f.pc, f.offset, f.begin);
  } else {
    visit.hex("pc", f.pc, WhenEmpty::omit);
    visit.hex("offset", f.offset, f.pc == 0 ? WhenEmpty::omit : WhenEmpty::write);
    visit.hex("begin", f.begin, WhenEmpty::omit);
  }
  visit("locals", f.locals, WhenEmpty::omit);
  visit("eval", f.eval, WhenEmpty::omit);
  visit("inlined", f.inlined, WhenEmpty::omit);
  visit("entry", f.entry, WhenEmpty::omit);
}

template <typename V, Self<Interpreter> I>
void fields(V& visit, I& i) {
  visit("id", i.id);
  visit("gil_holder", i.gil_holder, WhenEmpty::omit);
  visit("gc", i.gc, WhenEmpty::omit);
}

template <typename V, Self<LockHolder> L>
void fields(V& visit, L& l) {
  visit("kind", l.kind);
  visit("path", l.path, WhenEmpty::omit);
  visit("pids", l.pids, WhenEmpty::omit);
  visit("tid", l.tid, WhenEmpty::omit);
}

template <typename V, Self<SharedLock> L>
void fields(V& visit, L& l) {
  visit("path", l.path);
  visit("thread_id", l.thread_id);
}

template <typename V, Self<FileSystem> F>
void fields(V& visit, F& f) {
  visit("mount", f.mount);
  visit("type", f.type);
  visit("source", f.source);
  visit.optional("unanswered", f.unanswered);
}

template <typename V, Self<PolledFile> P>
void fields(V& visit, P& p) {
  visit("path", p.path);
  visit("missing", p.missing);
  visit("taken", p.taken, WhenEmpty::omit);
  visit("made_s", p.made_s, WhenEmpty::omit);
  visit("pids", p.pids, WhenEmpty::omit);
  visit("lock", p.lock, WhenEmpty::omit);
}

template <typename V, Self<AsyncTask> T>
void fields(V& visit, T& t) {
  visit.hex("id", t.id);
  visit("name", t.name);
  visit.hex("awaits", t.awaits, WhenEmpty::omit);
  visit("object", t.object, WhenEmpty::omit);
  visit("frames", t.frames);
}

template <typename V, Self<ThreadStack> T>
void fields(V& visit, T& t) {
  visit("tid", t.tid);
  visit("thread_id", t.thread_id, WhenEmpty::omit);
  visit("comm", t.comm);
  visit("python_name", t.python_name, WhenEmpty::omit);
  visit("state", t.state);
  visit("main", t.main);
  visit("circles", t.circles, WhenEmpty::omit);
  visit("crashed", t.crashed, WhenEmpty::omit);
  visit("gil", t.gil, WhenEmpty::omit);
  visit("gc", t.gc, WhenEmpty::omit);
  visit("interpreters", t.interpreters, WhenEmpty::omit);
  visit("cpu_ms", t.cpu_ms);
  visit("wchan", t.wchan, WhenEmpty::omit);
  visit("syscall", t.syscall, WhenEmpty::omit);
  visit("syscall_file", t.syscall_file, WhenEmpty::omit);
  visit("target", t.target, WhenEmpty::omit);
  visit("peers", t.peers, WhenEmpty::omit);
  visit("polls", t.polls, WhenEmpty::omit);
  visit("sharers", t.sharers, WhenEmpty::omit);
  visit("file_system", t.file_system, WhenEmpty::omit);
  visit("lock", t.lock, WhenEmpty::omit);
  visit("motion", t.motion, WhenEmpty::omit);
  visit("handling", t.handling, WhenEmpty::omit);
  visit("caught", t.caught, WhenEmpty::omit);
  visit("cpp_exception", t.cpp_exception, WhenEmpty::omit);
}

template <typename V, Self<GpuKernel> K>
void fields(V& visit, K& k) {
  visit("name", k.name);
  visit("full_name", k.full_name, WhenEmpty::omit);
  visit("device", k.device);
  visit("grid", k.grid);
  visit("grid_dim", k.grid_dim);
  visit("block_dim", k.block_dim);
  visit("status", k.status, WhenEmpty::omit);
}

template <typename V, Self<FatalSignal> F>
void fields(V& visit, F& f) {
  visit("signal", f.signal);
  visit("code", f.code);
  visit("tid", f.tid);
  visit("has_address", f.has_address);
  visit.hex("address", f.address);
  visit("sender", f.sender, WhenEmpty::omit);
}

template <typename V, Self<ProcessStacks> P>
void fields(V& visit, P& p) {
  visit("host", p.host);
  visit("pid", p.pid);
  visit.rank("rank", p.rank);
  visit.index("local_rank", p.local_rank);
  visit("role", p.role);
  visit("comm", p.comm);
  visit("cmdline", p.cmdline);
  visit("python_version", p.python_version);
  visit("forked", p.forked, WhenEmpty::omit);
  visit("with_locals", p.with_locals, WhenEmpty::omit);
  visit("wall_ns", p.wall_ns);
  visit("mono_ns", p.mono_ns);
  visit("pause_ns", p.pause_ns);
  visit("method", p.method);
  visit("status", p.status);
  visit("reason", p.reason, WhenEmpty::omit);
  visit("notes", p.notes, WhenEmpty::omit);
  visit("fatal_signal", p.fatal_signal, WhenEmpty::omit);
  visit("interpreters", p.interpreters, WhenEmpty::omit);
  visit("threads", p.threads);
  visit("tasks", p.tasks, WhenEmpty::omit);
  visit("held_locks", p.held_locks, WhenEmpty::omit);
  visit("gpu_kernels", p.gpu_kernels, WhenEmpty::omit);
  visit("module_paths", p.module_paths, WhenEmpty::omit);
}

}  // namespace xpurun::model
