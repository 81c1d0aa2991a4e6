// SpanService: drains the spans of all ranks ten times a second, samples the ranks' load once a second, and
// passes both to the span files and to a consumer. Before the first process requests memory, and after the
// last one has ended, nothing of this runs. Event loop's thread only.
#pragma once

#include "launcher/collect/python_segments.h"
#include "launcher/mpi/call_places.h"
#include "launcher/mpi/mpi_segments.h"
#include "launcher/mpi/mpi_spans.h"
#include "launcher/os/timer.h"
#include "launcher/processes/process_table.h"
#include "launcher/spans/process_load.h"
#include "launcher/spans/span_files.h"
#include "launcher/spans/span_reader.h"
#include "launcher/spans/stolen_cpu.h"

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace xpurun::launcher {

class SpanService {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    ProcessTable& table;
    PythonSegments& segments;
    MpiSegments& mpi;
    CallPlaces& places;  // of MPI calls
  };
  using Consumer = std::function<void(const SpanSource& who, std::span<const model::Span> spans)>;

  using LoadConsumer = std::function<void(base::Pid pid, const model::LoadSample& load)>;

  // Limits for the files of one rank.
  struct Limits {
    uint64_t span_bytes = 0;
    uint64_t function_bytes = 0;
  };
  // `wanted`: whether spans are being recorded.
  SpanService(Parts parts, const std::string& run_dir, std::string host, Limits limits,
              std::function<bool()> wanted);
  SpanService(const SpanService&) = delete;
  SpanService& operator=(const SpanService&) = delete;

  // Called with the spans of a rank, without those of traced functions, at each drain that found some. The
  // references are valid during the call.
  void on_spans(Consumer consumer) { consumer_ = std::move(consumer); }

  // Called with each sample of the load of a rank.
  void on_load(LoadConsumer consumer) { load_consumer_ = std::move(consumer); }

  // Call before a process gets its memory, which may replace that of an ended process with the same pid.
  void before_attach(base::Pid pid);
  // Call after a process has got its memory.
  void attached();
  // Writes everything, including the rest of ended processes. Before a dump and at the end of the job.
  void flush();
  // The latest sample of a rank.
  std::optional<model::LoadSample> load(base::Pid pid) const;

 private:
  struct Reader {
    uint64_t number = 0;  // of the segment
    SpanReader spans;
    SpanReader marks;
    uint64_t mpi_number = 0;  // of the segment of MPI
    MpiSpans mpi;
    ProcessLoad load;
    std::optional<model::LoadSample> latest;
    base::MonoNs sampled = 0;
    // The number of lost spans that the files of stages, and of functions, already state.
    uint64_t stages_lost = 0;
    uint64_t functions_lost = 0;
    bool ended = false;  // the process has ended, and everything was read
  };

  void tick();
  // Whether the process may write more.
  bool drain(base::Pid pid, base::MonoNs now);
  std::set<base::Pid> pids() const;
  Reader& reader_of(base::Pid pid, const PythonSegments::View& python, const MpiSegments::View& mpi);
  static std::vector<model::Span> merged(const std::vector<model::Span>& a,
                                         const std::vector<model::Span>& b);
  static std::vector<model::Span> read(const PythonSegments::View& view, Reader& reader);
  MpiSpans::Found read(const wire::MpiSegment& memory, Reader& reader, base::Pid pid, bool last);
  void write(const SpanSource& who, Reader& reader, std::vector<model::Span> spans);

  Parts parts_;
  std::string host_;
  std::function<bool()> wanted_;
  SpanFiles files_;
  SpanFiles functions_;
  Consumer consumer_;
  LoadConsumer load_consumer_;
  std::map<base::Pid, Reader> readers_;
  StolenCpu stolen_;
  Timer timer_{parts_.loop};
};

}  // namespace xpurun::launcher
