#include "commands/child.h"
#include "commands/doctor/checks.h"
#include "commands/doctor/context.h"
#include "commands/doctor/finding_text.h"
#include "commands/doctor/nccl_versions.h"
#include "commands/doctor/proc_mount.h"
#include "common/base/tr.h"
#include "common/wire/nccl_profiler.h"
#include "launcher/spawn/elf_dynamic.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <unistd.h>

using namespace xpurun::launcher;
namespace fs = std::filesystem;

namespace {

void write_program(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
  fs::permissions(path, fs::perms::owner_all);
}

}  // namespace

TEST_CASE("children of the doctor") {
  const ProgramOutput told = run_function(
      [] {
        (void)!::write(STDOUT_FILENO, "hello\n", 6);
        return 7;
      },
      10);
  CHECK(told.status == 7);
  CHECK(told.output == "hello\n");
  SUBCASE("a child that never ends is killed at its time limit") {
    const ProgramOutput stuck = run_function(
        [] {
          ::alarm(60);
          for (;;) {
            ::pause();
          }
          return 0;
        },
        0.1);
    CHECK(stuck.status == -1);
  }
  SUBCASE("a grandchild that keeps the pipe open does not block the doctor") {
    const ProgramOutput left = run_program({"sh", "-c", "sleep 60 & echo started"}, 0.3);
    CHECK(left.output == "started\n");
  }
  CHECK(run_program({"xpurun-no-such-program"}, 1).status == -1);
  CHECK(run_program({"sh", "-c", "kill -9 $$"}, 10).status == 128 + 9);
}

TEST_CASE("the program that a command executes") {
  const std::string dir = fs::current_path();
  write_program("interpreted", "#!" + dir + "/interpreter -x\n");
  write_program("interpreter", "#! /usr/bin/env -S A=b sh -e\n");
  const ProgramOfCommand program = program_of({dir + "/interpreted", "x"});
  REQUIRE(program.chain.size() == 3);
  CHECK(program.chain[0] == dir + "/interpreted");
  CHECK(program.chain[1] == dir + "/interpreter");
  CHECK(program.chain[2].ends_with("/sh"));
  write_program("itself", "#!" + dir + "/itself\n");
  CHECK(program_of({dir + "/itself"}).chain.size() == 5);
  CHECK(program_of({"xpurun-no-such-program"}).path.empty());
  CHECK(program_of({}).chain.empty());
}

TEST_CASE("the dependencies of a library") {
  const auto needed = needed_libraries("/proc/self/exe");
  CHECK(std::find(needed.begin(), needed.end(), "libc.so.6") != needed.end());
  std::ofstream("text") << "no ELF";
  std::ofstream("short") << "\x7f"
                            "ELF\x02";
  CHECK(needed_libraries("text").empty());
  CHECK(needed_libraries("short").empty());
  CHECK(needed_libraries("nowhere").empty());
}

TEST_CASE("versions of NCCL") {
  CHECK(nccl_version_text(22809) == "2.28.9");
  CHECK(nccl_version_text(2804) == "2.8.4");
  CHECK(judge_nccl(22809, "x").grade == Grade::ok);
  CHECK(judge_nccl(22703, "x").grade == Grade::ok);
  for (int code : {2804, 21205, 22203, 22304, 22602, 23003, 23102, 30000}) {
    CAPTURE(code);
    const Finding f = judge_nccl(code, "x");
    CHECK(f.grade == Grade::warn);
    CHECK_FALSE(f.lost.empty());
    CHECK_FALSE(f.remedy.empty());
  }
  CHECK(judge_nccl(23003, "x").text.find("2112") != std::string::npos);
}

TEST_CASE("a command that does not exist: the doctor says what it costs and what to do") {
  const auto of = [](const std::string& program) {
    const Findings all = check_preload({.command = {program}});
    const auto found =
        std::find_if(all.begin(), all.end(), [](const Finding& f) { return f.check == "command"; });
    REQUIRE(found != all.end());
    for (const Finding& f : all) {
      CHECK((f.grade == Grade::ok || f.grade == Grade::none || (!f.lost.empty() && !f.remedy.empty())));
    }
    return *found;
  };
  const Finding unknown = of("xpurun-no-such-program");
  CHECK(unknown.grade == Grade::fail);
  CHECK(unknown.lost == "the job: xpurun would end with status 127");
  CHECK(unknown.remedy == "activate the environment that has xpurun-no-such-program, or give its path");
  CHECK(of("--nproc_per_node").remedy == "xpurun -- torchrun --nproc_per_node");
}

TEST_CASE("findings as text and as JSON") {
  const Finding bad{
      .check = "shm", .grade = Grade::warn, .text = "64 MiB free", .lost = "workers die", .remedy = "more"};
  CHECK(finding_text(bad, 80, Ink::plain()) ==
        "warn  shm         64 MiB free\n"
        "                  lost: workers die\n"
        "                  do: more\n");
  CHECK(finding_text(bad, 40, Ink::plain()) ==
        "warn  shm\n      64 MiB free\n      lost: workers die\n      do: more\n");
  CHECK(finding_text(bad, 80, Ink::coloured()).starts_with("\x1b[33mwarn  \x1b[0mshm"));
  Findings all{bad, {.check = "gdb", .text = "there"}};
  CHECK_FALSE(any_failed(all));
  CHECK(findings_summary(all, 80, Ink::plain()).starts_with("\n1 ok, 1 warn, 0 fail\n"));
  all.push_back({.check = "ptrace", .grade = Grade::fail, .text = "refused"});
  CHECK(any_failed(all));
  const auto j = to_json(all);
  CHECK(j["schema"] == "xpurun.doctor/1");
  CHECK(j["ok"] == false);
  CHECK(j["checks"][2]["grade"] == "fail");
}

TEST_CASE("findings in Chinese keep their columns, and JSON its words") {
  const xpurun::base::Speaking speaking(xpurun::base::Language::chinese);
  const Finding bad{.check = "shm", .grade = Grade::warn, .text = "64 MiB", .lost = "a", .remedy = "b"};
  CHECK(finding_text(bad, 80, Ink::plain()) ==
        "警告  shm         64 MiB\n"
        "                  损失：a\n"
        "                  补救：b\n");
  CHECK(findings_summary({bad}, 80, Ink::plain()).starts_with("\n"));
  CHECK(to_json({bad})["checks"][0]["grade"] == "warn");
  // Their texts are kept in two places.
  for (const xpurun::wire::BadNccl& release : xpurun::wire::kBadNccl) {
    CHECK(xpurun::base::tr(release.trouble) != release.trouble);
  }
}

TEST_CASE("doctor: how /proc is mounted, and what that hides") {
  const std::string plain = "24 31 0:22 / /proc rw,nosuid shared:5 - proc proc rw\n";
  CHECK(judge_proc(proc_mount_in(plain), false).grade == Grade::ok);
  CHECK(judge_proc(proc_mount_in("24 31 0:22 / /proc rw - proc proc rw,hidepid=0\n"), false).grade ==
        Grade::ok);
  const ProcMount hidden = proc_mount_in("24 31 0:22 / /proc rw - proc proc rw,gid=4,hidepid=invisible\n");
  CHECK(hidden.hidepid == "hidepid=invisible");
  CHECK(judge_proc(hidden, true).grade == Grade::ok);
  CHECK(judge_proc(hidden, true).text ==
        "/proc is mounted with hidepid=invisible, which hides no process from this user");
  const Finding lost = judge_proc(hidden, false);
  CHECK(lost.grade == Grade::warn);
  CHECK(lost.text ==
        "/proc is mounted with hidepid=invisible, so that only processes of this user are visible");
  CHECK(lost.remedy == "mount -o remount,hidepid=0 /proc");
  // As container engines mask some files; the others take no fact of xpurun's.
  const ProcMount masked = proc_mount_in(plain +
                                         "25 24 0:5 /null /proc/interrupts rw - tmpfs tmpfs rw\n"
                                         "26 24 0:5 /null /proc/kcore rw - tmpfs tmpfs rw\n");
  CHECK(masked.masked.size() == 2);
  const Finding of_mask = judge_proc(masked, true);
  CHECK(of_mask.text == "/proc/interrupts masked");
  CHECK(of_mask.lost == "interrupts");
  // Another mount of /proc hides the masks with the first one.
  CHECK(proc_mount_in("25 24 0:5 / /proc/stat rw - tmpfs tmpfs rw\n" + plain).masked.empty());
  const Finding pids =
      judge_proc(proc_mount_in("24 31 0:22 / /proc rw - proc proc rw,hidepid=2,subset=pid\n"), false);
  CHECK(pids.text.ends_with("visible; /proc is mounted with subset=pid"));
  CHECK(proc_mount_in("damaged\n- - -\n").masked.empty());
}
