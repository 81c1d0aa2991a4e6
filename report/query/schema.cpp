// The content of the database: tables, columns and what they mean. The tables are made from this list, and
// `xpurun query --list` prints it.
#include "report/query/schema.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <vector>

namespace xpurun::report {

namespace {

constexpr TableColumns kColumns[] = {
    {"run", "directory TEXT", "run directory"},
    {"run", "began_ns INTEGER", "begin of the run, nanoseconds since 1970"},
    {"run", "seconds REAL", "length of the run"},
    {"run", "outcome TEXT", "running, exit, signal, hang, ..."},
    {"run", "verdict TEXT", "the verdict's sentence"},
    {"ranks", "rank INTEGER, pid INTEGER, host TEXT, gpu TEXT", "one row per rank and process"},
    {"ranks", "lost INTEGER", "events that the rank could not record"},
    {"deaths", "rank INTEGER, pid INTEGER, at_s REAL, status TEXT",
     "ends of processes, seconds since the begin of the run"},
    {"exceptions",
     "rank INTEGER, pid INTEGER, at_s REAL, type TEXT, message TEXT, file TEXT, line INTEGER, function TEXT",
     "what Python reported"},
    {"stalls", "number INTEGER, at_s REAL, cleared_s REAL, sentence TEXT",
     "cleared_s is NULL if the stall never ended"},
    {"calls", "rank INTEGER", "NULL for a process without a rank"},
    {"calls", "category TEXT", "matmul, collective, memory, kernel, graph or host"},
    {"calls", "name TEXT, function TEXT", "\"matmul 4096x1024x512 bf16\"; the vendor's function"},
    {"calls", "track TEXT, stream INTEGER",
     "compute, communication, memory or host; number of the stream or thread"},
    {"calls", "begin_s REAL, seconds REAL", "since the begin of the run; length"},
    {"calls", "flop INTEGER, bytes INTEGER", "work of the call; NULL: unknown"},
    {"calls", "tflops REAL, bus_gb_s REAL", "10^12 FLOP and 10^9 bytes (bus bandwidth) a second; NULL: none"},
    {"calls", "delay_s REAL", "from the call to its start on the GPU"},
    {"calls", "sequence INTEGER, meeting INTEGER",
     "number on its communicator; equal for one collective on all ranks"},
    {"spans", "rank INTEGER, stage TEXT, name TEXT, place TEXT",
     "what Python did: data, forward, backward, optimizer, function, ..."},
    {"spans", "begin_s REAL, seconds REAL, cpu_s REAL, thread INTEGER",
     "cpu_s: CPU time of the thread; NULL: unknown"},
    {"spans", "meeting INTEGER", "equal for one collective on all ranks"},
    {"spans", "id INTEGER, parent INTEGER, self_s REAL",
     "the span around it, NULL: none; its time outside of the spans inside of it"},
    {"short_calls",
     "rank INTEGER, name TEXT, calls INTEGER, seconds REAL, begin_s REAL, until_s REAL, thread INTEGER",
     "calls of traced functions that were shorter than --trace-python-min, summed up"},
    {"steps", "rank INTEGER, step INTEGER, begin_s REAL, seconds REAL",
     "steps as `xpurun analyze` finds them"},
    {"steps", "wait_s REAL", "in collectives until the last rank had come; NULL: not all were timed"},
    {"steps",
     "data_s REAL, forward_s REAL, backward_s REAL, optimizer_s REAL, communication_s REAL, checkpoint_s "
     "REAL, evaluation_s REAL, garbage_s REAL",
     "time of the step in each stage"},
    {"steps", "transfer_s REAL", "in collectives from then on; NULL as wait_s"},
    {"steps", "cpu_s REAL, run_delay_s REAL, page_faults REAL",
     "of all threads: CPU time, time that they were ready and had no CPU, major page faults; NULL: unknown"},
    {"steps", "throttled_s REAL, stolen_s REAL",
     "kept from running by the CPU limit of a container, and by the hypervisor; NULL: unknown"},
    {"steps", "exposed_s REAL, hidden_s REAL",
     "communication that computing does not hide, and that it hides; NULL: not all collectives were timed"},
    {"machine", "host TEXT, fact TEXT, object TEXT, rank INTEGER",
     "what the kernel counts about the host: the fact, and its disk, link, CPU or rank"},
    {"machine", "first REAL, last REAL, times INTEGER",
     "first and last value; how often it passed its limit"},
    {"machine", "begin_s REAL, until_s REAL, amount REAL, detail TEXT",
     "one such time, and by how much; NULL: never"},
    {"gpus", "host TEXT, gpu TEXT, rank INTEGER, name TEXT, serial TEXT, uuid TEXT, pci TEXT",
     "the GPUs of the host by NVML: GPU 0, ...; the rank that has the GPU to itself"},
    {"gpus", "power_limit_w REAL, power_default_w REAL, clock_max_mhz INTEGER, temperature_most_c INTEGER",
     "limits, and the highest temperature of the run; NULL: unknown"},
    {"gpus", "pcie_width INTEGER, pcie_generation_max INTEGER, nvlinks INTEGER", "links that are up"},
    {"gpus", "persistence INTEGER, mig INTEGER, ecc INTEGER", "1: on"},
    {"gpus",
     "ecc_corrected_ever INTEGER, ecc_uncorrected_ever INTEGER, rows_corrected INTEGER, rows_uncorrected "
     "INTEGER",
     "memory errors and remapped rows over the GPU's life; gpu_health has those of the run"},
    {"gpu_paths", "host TEXT, gpu TEXT, other TEXT, path TEXT",
     "how two GPUs are connected, in the words of nvidia-smi topo: NV18, PIX, PXB, PHB, NODE, SYS"},
    {"intruders", "host TEXT, rank INTEGER, relation TEXT, owner INTEGER",
     "who had a rank's CPUs while its threads were ready to run: stranger, other_rank (of owner), own, job, "
     "unseen"},
    {"intruders", "pid INTEGER, command TEXT, control_group TEXT, processes INTEGER",
     "the process with the most CPU time; how many there were at once; NULL: not known"},
    {"intruders", "share REAL, cpu_s REAL, ready_s REAL, watched_s REAL",
     "of the time of the rank's CPUs; CPU time, time that the rank was ready without a CPU, sampled time"},
    {"intruders", "begin_s REAL, until_s REAL", "first and last seen, since the begin of the run"},
    {"memory", "rank INTEGER, reason TEXT, at_s REAL, step INTEGER",
     "looks of the ranks at their memory (xpurun memory), seconds since the begin of the run"},
    {"memory", "device TEXT, category TEXT, bytes INTEGER",
     "parameters, gradients, optimizer, activations, tensors, unused, ..."},
    {"allocations", "rank INTEGER, reason TEXT, device TEXT, category TEXT",
     "who held memory in these looks: one row per holder and stack of the allocation"},
    {"allocations", "holder TEXT, place TEXT, stack TEXT",
     "the variable or module; the user's line that allocated; all lines, outermost first; NULL: not known"},
    {"allocations", "bytes INTEGER, blocks INTEGER, grown INTEGER, stream INTEGER",
     "grown: bytes since the begin of the window; NULL: there was no window"},
    {"counters", "rank INTEGER, name TEXT, unit TEXT, at_s REAL, value REAL",
     "samples of GPU clocks and hardware counters in captures"},
    {"captures", "capture TEXT, reason TEXT, at_s REAL, seconds REAL, sentence TEXT",
     "captures; what differs between the ranks"},
    {"captured", "capture TEXT, kind TEXT, name TEXT, place TEXT",
     "what ran for 1 % of a capture: kernel, collective, memory, call, or a function of python or of a "
     "worker"},
    {"captured", "beta REAL, share REAL",
     "share of the time on the critical path, after overlap; of all the time"},
    {"captured", "calls INTEGER, mean_s REAL, median_s REAL, spread REAL",
     "their number, mean and median length, standard deviation; of Python the standard deviation of the "
     "share"},
    {"captured", "resource TEXT, mu REAL, sigma REAL",
     "the resource that fits, its mean use and standard deviation: share of the peak, or bytes a second"},
    {"captured", "outliers TEXT, outliers_share REAL",
     "the ranks that differ from the others, and their share"},
    {"captured", "stack TEXT",
     "of Python: the stack with most samples, from the program's outermost function on; NULL: none"},
    {"captured", "link TEXT", "of a collective: inside a node, between nodes; NULL: unknown"},
    {"idle", "record TEXT, source TEXT, rank INTEGER, window_s REAL, works INTEGER",
     "GPUs in the newest traces and captures: seconds and number of the recorded work"},
    {"idle", "idle_s REAL, host_wait_s REAL, kernel_wait_s REAL, between_steps_s REAL",
     "no work was running; of this time: nothing was launched, launched work waited, between two steps"},
    {"idle", "queue_mean REAL, queue_p99 REAL", "launched work that had not begun, weighted by time"},
    {"idle", "void REAL, others_void REAL, outlier INTEGER",
     "idle share of the window; median of the ranks that do the same work; 1: far more than theirs"},
    {"gaps", "record TEXT, rank INTEGER, begin_s REAL, seconds REAL, kernel_wait_s REAL",
     "the longest times without work on a GPU"},
    {"gaps", "after_work TEXT, before_work TEXT, python TEXT, call TEXT",
     "the work that ended last and that began then; what Python did, the call of CUDA in the middle"},
};

// Of a row of machine: the first step that the time touches.
constexpr std::string_view kFirstStep =
    R"((SELECT min(steps.step) FROM steps WHERE (machine.rank IS NULL OR steps.rank = machine.rank)
    AND steps.begin_s <= machine.until_s AND steps.begin_s + steps.seconds >= machine.begin_s) AS step)";

// Parts of machine.
constexpr std::string_view kViews = R"(
CREATE VIEW io AS SELECT machine.*, {0} FROM machine WHERE fact IN ('space', 'inodes', 'mount_silent', 'storage_wait',
  'io_pressure', 'rank_read', 'rank_written', 'rank_io_calls', 'rank_page_faults', 'mount_read', 'mount_written', 'mount_operations',
  'mount_time');
CREATE VIEW cpu AS SELECT machine.*, {0} FROM machine WHERE fact IN ('no_cpu', 'throttled', 'cpu_pressure', 'interrupts', 'stolen',
  'cpu_throttled', 'cpu_limited');
CREATE VIEW links AS SELECT machine.*, {0} FROM machine WHERE fact IN ('link_downed', 'link_recoveries', 'symbol_errors',
  'receive_errors', 'retransmissions', 'congestion', 'carrier_changes', 'packet_errors', 'packets_dropped',
  'tcp_retransmissions', 'tcp_segments', 'pcie_corrected', 'pcie_uncorrected', 'pcie_narrow', 'pcie_slow',
  'port_down', 'pause_frames', 'paused', 'port_discards', 'nvlink_recoveries', 'nvlink_replays', 'nvlink_crc',
  'nvlink_down', 'gpu_pcie_replays');
CREATE VIEW gpu_health AS SELECT machine.*, gpus.name, gpus.serial, gpus.uuid,
  {0}
  FROM machine LEFT JOIN gpus ON gpus.host = machine.host
    AND (machine.object = gpus.gpu OR machine.object LIKE gpus.gpu || ' %')
  WHERE machine.object LIKE 'GPU %';
)";

}  // namespace

std::string TableColumns::names() const {
  std::vector<std::string_view> out;
  for (const std::string_view column : base::split(typed, ',')) {
    const std::string_view trimmed = base::trim(column);
    out.push_back(trimmed.substr(0, trimmed.find(' ')));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

std::span<const TableColumns> table_columns() {
  return kColumns;
}

std::string create_tables() {
  std::string out;
  std::string_view table;
  for (const TableColumns& columns : kColumns) {
    out += columns.table == table
               ? ", "
               : fmt::format("{}CREATE TABLE {}(", out.empty() ? "" : ");\n", columns.table);
    out += columns.typed;
    table = columns.table;
  }
  return out + ");\n" + fmt::format(fmt::runtime(kViews), kFirstStep);
}

}  // namespace xpurun::report
