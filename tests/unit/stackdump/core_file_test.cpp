#include "stackdump/core/core_file.h"

#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "stackdump/core/core_memory.h"
#include "stackdump/core/core_process.h"
#include "stackdump/process_dump.h"
#include "tests/support/core_writer.h"

#include <doctest/doctest.h>

#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace xpurun::stackdump;
using xpurun::tests::bytes_of;
using xpurun::tests::CoreWriter;
namespace base = xpurun::base;
namespace model = xpurun::model;

namespace {

constexpr Addr kStack = 0x7ffc'0000'0000;
constexpr Addr kData = 0x5555'0000'0000;
constexpr Addr kImage = 0x7f00'0000'0000;

CoreWriter sample() {
  CoreWriter out;
  out.thread(101, 0x1234, kStack + 0x100, SIGSEGV)
      .process(100, "python3", "python3 job.py ", 7)
      .signal(SIGSEGV, SEGV_MAPERR, 0x10)
      .thread(100, 0x5678, kStack + 0x200, SIGSEGV)
      .segment(kStack, std::string(4096, 's'))
      .segment(kData, std::string(4096, 'd'), 8192);
  return out;
}

base::TemporaryDirectory folder() {
  auto made = base::TemporaryDirectory::create("xpurun-core");
  REQUIRE(made);
  return std::move(*made);
}

base::Result<CoreFile> opened(std::string_view content) {
  const auto dir = folder();
  const std::string path = dir.path() + "/core";
  REQUIRE(base::write_file_atomic(path, content));
  return CoreFile::open(path);
}

std::string refusal(std::string_view content) {
  const auto core = opened(content);
  REQUIRE_FALSE(core);
  CHECK(core.error().id == "E-CORE");
  return core.error().what;
}

template <typename T>
std::string changed(std::string file, size_t at, T value) {
  std::memcpy(file.data() + at, &value, sizeof value);
  return file;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Position of the owner's name in the note with the build id.
size_t build_id_at(const std::string& page) {
  const std::string note = bytes_of(Elf64_Nhdr{.n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID});
  const size_t at = page.find(note + std::string("GNU\0", 4));
  REQUIRE(at != std::string::npos);
  return at + note.size();
}

// The program of this test as a mapped file whose first page alone is in the core.
struct OwnImage {
  OwnImage() {
    char buffer[4096];
    const ssize_t n = ::readlink("/proc/self/exe", buffer, sizeof buffer);
    REQUIRE(n > 0);
    path.assign(buffer, static_cast<size_t>(n));
    content = *base::read_file(path);
    size = (content.size() + 4095) & ~size_t{4095};
  }
  CoreWriter core(std::string first_page) const {
    CoreWriter out = sample();
    out.files({{kImage, kImage + size, 0, path}}).segment(kImage, std::move(first_page), size, PF_R);
    return out;
  }
  std::string path;
  std::string content;
  size_t size = 0;
};

model::ProcessStacks stacks_of(std::string_view content, ModuleFiles files = {}) {
  const auto dir = folder();
  const std::string path = dir.path() + "/core";
  REQUIRE(base::write_file_atomic(path, content));
  auto dump = ProcessDump::from_core(path, std::move(files), LocalVariables::leave);
  REQUIRE(dump);
  ResolveSettings settings;
  settings.line_budget_ns = 0;
  return (*dump)->resolve(settings);
}

}  // namespace

TEST_CASE("a file that is not a core file of this machine is refused with the reason") {
  const std::string whole = sample().file();
  REQUIRE(opened(whole));
  CHECK(has(refusal(""), "is empty"));
  CHECK(has(refusal("#!/bin/sh\n"), "no ELF header"));
  CHECK(has(refusal(whole.substr(0, 40)), "truncated inside its ELF header"));
  CHECK(has(refusal(whole.substr(0, 100)), "truncated inside its program headers"));
  CHECK(has(refusal(changed(whole, offsetof(Elf64_Ehdr, e_machine), uint16_t{EM_AARCH64})), "(AArch64)"));
  CHECK(has(refusal(changed(whole, EI_CLASS, char{ELFCLASS32})), "(x32)"));
  CHECK(has(refusal(changed(whole, EI_DATA, char{ELFDATA2MSB})), "of another machine"));
  CHECK(has(refusal(changed(whole, offsetof(Elf64_Ehdr, e_type), uint16_t{ET_DYN})), "not a core file"));
  CHECK(has(refusal(changed(whole, offsetof(Elf64_Ehdr, e_phnum), uint16_t{0})), "no program headers"));
  CHECK(has(refusal(changed(whole, offsetof(Elf64_Ehdr, e_phoff), uint64_t{1} << 40)), "truncated inside"));
  CHECK(has(refusal(CoreWriter().segment(kStack, "x").file()), "no note NT_PRSTATUS"));
  // Without its notes, and with a note of another owner.
  CHECK(has(refusal(CoreWriter().note(NT_PRSTATUS, std::string(400, '\0'), "LINUX").file()), "NT_PRSTATUS"));
}

TEST_CASE("a compressed core file is refused with the command that unpacks it") {
  for (const auto& [magic, command] : {std::pair<std::string, std::string>{"\x28\xb5\x2f\xfd", "zstd -dc"},
                                       {"\x04\x22\x4d\x18", "lz4 -dc"},
                                       {"\xfd\x37zXZ", "xz -dc"},
                                       {"\x1f\x8b\x08", "gzip -dc"}}) {
    const auto core = opened(magic + std::string(100, 'x'));
    REQUIRE_FALSE(core);
    CHECK(has(core.error().what, "is compressed with"));
    CHECK(has(core.error().hint, command));
  }
}

TEST_CASE("a core file that cannot be opened is refused; a FIFO does not block") {
  const auto dir = folder();
  const auto missing = CoreFile::open(dir.path() + "/none");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().id == "E-CORE");
  CHECK(missing.error().sys_errno == ENOENT);
  CHECK(has(CoreFile::open(dir.path()).error().what, "not a regular file"));
  REQUIRE(::mkfifo((dir.path() + "/fifo").c_str(), 0600) == 0);
  CHECK(has(CoreFile::open(dir.path() + "/fifo").error().what, "not a regular file"));
}

TEST_CASE("threads, registers, signal and process of a core file") {
  for (const bool many : {false, true}) {
    CoreWriter writer = sample();
    if (many) {
      writer.many_headers();
    }
    const auto core = opened(writer.file());
    REQUIRE(core);
    const CoreNotes& notes = core->notes();
    REQUIRE(notes.threads.size() == 2);
    CHECK(notes.threads[0].tid == 101);
    CHECK(notes.threads[0].registers.pc() == 0x1234);
    CHECK(notes.threads[0].registers.fs_base == 0x7000'0000'0000 + 101);
    CHECK(notes.threads[0].cpu_ms == 1500);
    REQUIRE(notes.threads[0].info);
    CHECK(notes.threads[0].info->number == SIGSEGV);
    CHECK(notes.threads[0].info->address == 0x10);
    CHECK_FALSE(notes.threads[1].info);
    CHECK(notes.pid == 100);
    CHECK(notes.parent == 7);
    CHECK(notes.name == "python3");
    CHECK(core->cut_off() == 0);
    CHECK(core->segments().size() == 2);
  }
}

TEST_CASE("a truncated core file gives what is there and says so") {
  const std::string whole = sample().file();
  const auto core = opened(whole.substr(0, whole.size() - 1000));
  REQUIRE(core);
  CHECK(core->cut_off() == 1000);
  CHECK(core->notes().threads.size() == 2);
  DumpedMemory memory(*core);
  CHECK(memory.value<char>(kData + 3095) == 'd');
  CHECK_FALSE(memory.value<char>(kData + 3096));
  CHECK(memory.value<char>(kStack) == 's');
  const auto stacks = stacks_of(whole.substr(0, whole.size() - 1000));
  CHECK(stacks.status == model::DumpStatus::partial);
  CHECK(has(stacks.reason, "cut off"));
  CHECK(stacks.threads.size() == 2);
  // At every length: an error, or what is there.
  for (size_t n = 0; n < whole.size() - 8192; ++n) {
    const auto part = opened(std::string_view(whole).substr(0, n));
    CHECK((part || !part.error().what.empty()));
  }
}

TEST_CASE("mappings of a core file have the paths of NT_FILE, [vdso] and [stack]") {
  CoreWriter writer = sample();
  writer.auxv({{AT_SYSINFO_EHDR, 0x7ffd'0000'0000}, {AT_RANDOM, kStack + 0x800}, {AT_PHDR, kImage + 64}})
      .files({{kImage, kImage + 0x2000, 0, "/usr/bin/program"},
              {kImage + 0x2000, kImage + 0x3000, 0x2000, "/usr/bin/program"},
              {kImage + 0x9000, kImage + 0xa000, 0x1000, "/tmp/gone.so (deleted)"}})
      .segment(0x7ffd'0000'0000, std::string(4096, 'v'), 0, PF_R | PF_X)
      .segment(kImage, "", 0x2000, PF_R | PF_X)
      .segment(kImage + 0x2000, std::string(4096, 'w'));
  const auto core = opened(writer.file());
  REQUIRE(core);
  const ProcMaps maps = core_maps(*core);
  CHECK(maps.find(0x7ffd'0000'0000)->path == "[vdso]");
  CHECK(maps.find(kStack)->path == "[stack]");
  CHECK(maps.find(kData)->path.empty());
  const Mapping* text = maps.find(kImage + 0x1fff);
  REQUIRE(text != nullptr);
  CHECK(text->path == "/usr/bin/program");
  CHECK(text->executable);
  CHECK(maps.find(kImage + 0x2000)->offset == 0x2000);
  CHECK(maps.find(kImage + 0x2000)->writable);
  const Mapping* gone = maps.find(kImage + 0x9000);
  REQUIRE(gone != nullptr);
  CHECK(gone->deleted);
  CHECK(gone->path == "/tmp/gone.so");
  CHECK(core_program(core->notes(), maps) == "/usr/bin/program");
}

TEST_CASE("pages that are not dumped come from the file, if it is the same file") {
  const OwnImage own;
  const auto read_second_page = [&](const std::string& first_page, int64_t core_ns) {
    const auto core = opened(own.core(first_page).file());
    REQUIRE(core);
    DumpedMemory dumped(*core);
    CoreMemory memory(*core);
    const ProcMaps maps = core_maps(*core);
    ModuleList modules({.core_ns = core_ns, .facts = core_modules(dumped, maps)}, maps, dumped);
    CHECK_FALSE(memory.bytes(kImage + 4096, 64));  // no files yet
    memory.use_files(modules);
    auto out = memory.bytes(kImage + 4090, 64);
    // The last page is filled up with zeros, and nothing lies behind it.
    CHECK(memory.bytes(kImage + own.size - 1, 1).has_value() == out.has_value());
    CHECK_FALSE(memory.bytes(kImage + own.size, 1));
    CHECK(modules.missing().empty() == out.has_value());
    return out;
  };
  const std::string page = own.content.substr(0, 4096);
  CHECK(read_second_page(page, 1) == own.content.substr(4090, 64));
  // Another build id, or, without one, other segments.
  std::string other = page;
  const size_t id = build_id_at(other);
  other[id + 4] = static_cast<char>(other[id + 4] ^ 1);
  CHECK_FALSE(read_second_page(other, 1));
  other = page;
  std::memset(other.data() + id, 'x', 4);
  CHECK(read_second_page(other, 1));
  Elf64_Phdr p;
  for (size_t at = sizeof(Elf64_Ehdr);; at += sizeof p) {
    std::memcpy(&p, other.data() + at, sizeof p);
    if (p.p_type == PT_LOAD) {
      p.p_memsz += 1;
      std::memcpy(other.data() + at, &p, sizeof p);
      break;
    }
  }
  CHECK_FALSE(read_second_page(other, 1));
}

TEST_CASE("a file that differs from the one of the core is named") {
  const OwnImage own;
  std::string page = own.content.substr(0, 4096);
  const size_t id = build_id_at(page);
  page[id + 4] = static_cast<char>(page[id + 4] ^ 1);
  CoreWriter writer;
  writer.thread(100, kImage + 8192, kStack + 0x100).segment(kStack, std::string(4096, '\0'));
  writer.files({{kImage, kImage + own.size, 0, own.path}});
  CoreWriter same = writer;
  writer.segment(kImage, page, own.size, PF_R | PF_X);
  const auto stacks = stacks_of(writer.file());
  REQUIRE(stacks.notes.size() == 1);
  CHECK(has(stacks.notes[0], "differs from the one of the core (build id "));
  same.segment(kImage, own.content.substr(0, 4096), own.size, PF_R | PF_X);
  CHECK(stacks_of(same.file()).notes.empty());
  const auto elsewhere = stacks_of(same.file(), {.sysroot = "/nowhere"});
  REQUIRE(elsewhere.notes.size() == 1);
  CHECK(has(elsewhere.notes[0], "is not here"));
}

TEST_CASE("arguments and environment come from the stack of the process") {
  std::string stack(8192, '\0');
  const auto put = [&](size_t at, const std::string& bytes) { bytes.copy(stack.data() + at, bytes.size()); };
  put(0x1000, "python3");
  put(0x1010, "job.py");
  put(0x1020, "RANK=3");
  put(0x1030, "EMPTY=");
  const std::vector<uint64_t> words = {
      2,         kStack + 0x1000, kStack + 0x1010, 0, kStack + 0x1020, kStack + 0x1030, 0, AT_PAGESZ, 4096,
      AT_RANDOM, kStack + 0x900,  AT_NULL,         0};
  for (size_t i = 0; i < words.size(); ++i) {
    put(0x800 + 8 * i, bytes_of(words[i]));
  }
  CoreWriter writer;
  writer.thread(1, 0, 0).auxv({{AT_PAGESZ, 4096}, {AT_RANDOM, kStack + 0x900}});
  CoreWriter damaged = writer;
  const auto core = opened(writer.segment(kStack, stack).file());
  REQUIRE(core);
  DumpedMemory memory(*core);
  const CoreArguments out = core_arguments(memory, core->notes());
  CHECK(out.argv == std::vector<std::string>{"python3", "job.py"});
  CHECK(out.environment == std::map<std::string, std::string>{{"RANK", "3"}, {"EMPTY", ""}});
  put(0x800, bytes_of(uint64_t{5}));  // another number of arguments
  const auto other = opened(damaged.segment(kStack, stack).file());
  REQUIRE(other);
  DumpedMemory its_memory(*other);
  CHECK(core_arguments(its_memory, other->notes()).argv.empty());
}

TEST_CASE("the signal of a core file, and the thread that got it first") {
  const auto stacks = stacks_of(sample().file());
  CHECK(stacks.pid == 100);
  CHECK(stacks.method == "core");
  CHECK(stacks.cmdline == std::vector<std::string>{"python3 job.py"});
  REQUIRE(stacks.threads.size() == 2);
  CHECK(stacks.threads[0].tid == 101);
  CHECK(stacks.threads[0].crashed);
  CHECK(stacks.threads[1].main);
  CHECK(stacks.fatal_signal.tid == 101);
  CHECK(model::fatal_words(stacks) == "died of SIGSEGV (address 0x10)");

  const auto words = [](int number, int code, uint64_t address, int sender) {
    return model::fatal_words(
        stacks_of(CoreWriter().thread(5, 1, 1, number).signal(number, code, address, sender).file()));
  };
  CHECK(words(SIGSEGV, SEGV_MAPERR, 0, 0) == "died of SIGSEGV (address 0x0)");
  CHECK(words(SIGSEGV, SI_KERNEL, 0, 0) == "died of SIGSEGV");
  CHECK(words(SIGQUIT, SI_USER, 0, 77) == "died of SIGQUIT (sent by pid 77)");
  CHECK(words(SIGABRT, SI_TKILL, 0, 5) == "died of SIGABRT");
  CHECK(words(SIGSTOP, SI_USER, 0, 5) == "");  // gcore of a living process
  CHECK(words(0, 0, 0, 0) == "");
}

TEST_CASE("a named program must be the program of the core") {
  const OwnImage own;
  const auto dir = folder();
  const std::string path = dir.path() + "/core";
  CoreWriter writer = own.core(own.content.substr(0, 4096));
  writer.auxv({{AT_PHDR, kImage + 64}});
  REQUIRE(base::write_file_atomic(path, writer.file()));
  const auto with = [&](const std::string& program) {
    return ProcessDump::from_core(path, {.program = program}, LocalVariables::leave);
  };
  CHECK(with(own.path));
  const auto other = with("/bin/sh");
  REQUIRE_FALSE(other);
  CHECK(has(other.error().what, "/bin/sh is not the program of the core file"));
  CHECK(other.error().id == "E-CORE");
  const auto missing = with(dir.path() + "/none");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().id == "E-CORE");
}
