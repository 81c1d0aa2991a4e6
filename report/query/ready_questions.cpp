#include "report/query/run_tables.h"

namespace xpurun::report {

namespace {

// Why a question may have no answer.
constexpr std::string_view kNoCalls =
    "no call of a GPU was timed: without a GPU there is none; else run with --timeline first:20, or ask for "
    "a trace while the job runs (xpurun ctl trace)";
constexpr std::string_view kNoCollectives =
    "no collective was timed: those that DDP and FSDP start are seen on a GPU only, and those of Python "
    "while spans are recorded (not with --no-python-hooks)";
constexpr std::string_view kNoSpans =
    "no stage or call in Python was recorded: this needs torch or the marks of xpurun.step(), and a run "
    "without --no-python-hooks";
constexpr std::string_view kNoFunctions = "no function was traced: run with --trace-python MODULE:FUNCTION";
constexpr std::string_view kNoSteps = "no step was found: mark the ends of steps with xpurun.step()";
constexpr std::string_view kNoCapture =
    "no capture was made: run xpurun capture while the job runs; a job that becomes slower is captured by "
    "itself";
constexpr std::string_view kNoIdle =
    "no trace or capture shows the work of a GPU: run xpurun capture while the job runs, or the job with "
    "--timeline first:20";
constexpr std::string_view kNoLook =
    "no rank has looked at its memory: this needs torch, and a run without --no-python-hooks and --timing "
    "off";
constexpr std::string_view kNoFailure =
    "no process of the run has failed, and Python has reported no exception";

constexpr ReadyQuestion kQuestions[] = {
    {"time", "where the time of each rank goes, by category of calls",
     "SELECT rank, category, count(*) AS calls, round(sum(seconds), 6) AS seconds, "
     "round(avg(seconds) * 1e6, 1) AS mean_us FROM calls GROUP BY rank, category ORDER BY rank, seconds "
     "DESC",
     kNoCalls},
    {"longest", "the longest calls",
     "SELECT rank, name, stream, round(begin_s, 6) AS begin_s, round(seconds * 1e3, 3) AS ms FROM calls "
     "ORDER BY seconds DESC LIMIT 20",
     kNoCalls},
    {"matmuls", "each shape of matmul: count, mean, worst rank",
     "WITH r AS (SELECT rank, name, count(*) AS n, avg(seconds) AS s, avg(tflops) AS t FROM calls "
     "WHERE category = 'matmul' GROUP BY rank, name) "
     "SELECT name, sum(n) AS calls, round(sum(n * s) / sum(n) * 1e6, 1) AS mean_us, round(avg(t), 1) AS "
     "tflops, "
     "(SELECT rank FROM r AS x WHERE x.name = r.name ORDER BY s DESC LIMIT 1) AS slowest_rank, "
     "round(max(s) / min(s), 2) AS slowest_to_fastest FROM r GROUP BY name ORDER BY sum(n * s) DESC LIMIT "
     "30",
     kNoCalls},
    {"collectives",
     "each collective: count, mean, bus bandwidth; of a job without GPUs by its calls in Python",
     "WITH c AS (SELECT name, seconds, bus_gb_s FROM calls WHERE category = 'collective' UNION ALL "
     "SELECT name, seconds, NULL FROM spans WHERE stage = 'communication' AND NOT EXISTS "
     "(SELECT 1 FROM calls WHERE category = 'collective')) "
     "SELECT name, count(*) AS calls, round(avg(seconds) * 1e6, 1) AS mean_us, round(max(seconds) * 1e6, 1) "
     "AS max_us, round(avg(bus_gb_s), 1) AS bus_gb_s FROM c GROUP BY name ORDER BY sum(seconds) DESC LIMIT "
     "30",
     kNoCollectives},
    {"late", "which rank comes last to collectives, and what that costs the others",
     "WITH c AS (SELECT meeting, rank, begin_s FROM calls WHERE meeting IS NOT NULL UNION ALL "
     "SELECT meeting, rank, begin_s FROM spans WHERE meeting IS NOT NULL AND NOT EXISTS "
     "(SELECT 1 FROM calls WHERE meeting IS NOT NULL)), "
     "m AS (SELECT rank, begin_s, max(begin_s) OVER w AS last, min(begin_s) OVER w AS first, "
     "count(*) OVER w AS n FROM c WINDOW w AS (PARTITION BY meeting)) "
     "SELECT rank, count(*) AS times_last, round(avg(last - first) * 1e3, 3) AS mean_ms_after_the_first "
     "FROM m WHERE n > 1 AND begin_s = last GROUP BY rank ORDER BY times_last DESC",
     kNoCollectives},
    {"gaps", "the longest times in which a stream had no timed call",
     "WITH g AS (SELECT rank, stream, begin_s - lag(begin_s + seconds) OVER (PARTITION BY rank, stream ORDER "
     "BY "
     "begin_s) AS gap_s, begin_s, name FROM calls WHERE track != 'host') "
     "SELECT rank, stream, round(begin_s - gap_s, 6) AS from_s, round(gap_s * 1e3, 3) AS ms, name AS "
     "next_call "
     "FROM g WHERE gap_s > 0 ORDER BY gap_s DESC LIMIT 20",
     kNoCalls},
    {"launches", "calls that waited longest between their launch and their start on the GPU",
     "SELECT rank, name, round(begin_s, 6) AS begin_s, round(delay_s * 1e3, 3) AS delay_ms FROM calls "
     "WHERE delay_s > 0 ORDER BY delay_s DESC LIMIT 20",
     kNoCalls},
    {"stages", "mean time of each stage of the program, by rank",
     "SELECT rank, stage, count(*) AS spans, round(avg(seconds) * 1e3, 3) AS mean_ms, round(max(seconds) * "
     "1e3, 3) "
     "AS max_ms, round(sum(seconds), 3) AS seconds FROM spans GROUP BY rank, stage ORDER BY rank, seconds "
     "DESC",
     kNoSpans},
    {"functions", "the functions of --trace-python, by rank; p99_ms is NULL if it is a short call",
     "WITH l AS (SELECT rank, name, seconds, self_s, row_number() OVER (PARTITION BY rank, name ORDER BY "
     "seconds) AS n "
     "FROM spans WHERE stage = 'function'), "
     "u AS (SELECT rank, name, 1 AS calls, 0 AS short, seconds, self_s FROM l UNION ALL "
     "SELECT rank, name, calls, calls, seconds, seconds FROM short_calls), "
     "t AS (SELECT rank, name, sum(calls) AS calls, sum(short) AS short, sum(seconds) AS seconds, "
     "sum(self_s) AS "
     "self_s FROM u GROUP BY rank, name), "
     "p AS (SELECT l.rank, l.name, min(l.seconds) AS p99 FROM l JOIN t ON l.rank IS t.rank AND l.name = "
     "t.name "
     "WHERE t.short < 0.99 * t.calls AND l.n + t.short >= 0.99 * t.calls GROUP BY l.rank, l.name) "
     "SELECT t.name, t.rank, t.calls, round(t.seconds, 6) AS total_s, round(t.self_s, 6) AS self_s, "
     "round(t.seconds / t.calls * 1e3, 4) AS mean_ms, round(p.p99 * 1e3, 4) AS p99_ms FROM t LEFT JOIN p ON "
     "t.rank IS "
     "p.rank AND t.name = p.name ORDER BY t.name, t.rank",
     kNoFunctions},
    {"batches", "the longest waits for a batch, and where",
     "SELECT rank, round(begin_s, 3) AS begin_s, round(seconds * 1e3, 1) AS ms, place FROM spans "
     "WHERE stage = 'data' ORDER BY seconds DESC LIMIT 20",
     kNoSpans},
    {"steps", "time of a step by rank",
     "SELECT rank, count(*) AS steps, round(avg(seconds) * 1e3, 2) AS mean_ms, round(min(seconds) * 1e3, 2) "
     "AS "
     "min_ms, round(max(seconds) * 1e3, 2) AS max_ms, round(avg(wait_s) * 1e3, 2) AS mean_wait_ms, "
     "round(avg(data_s) * 1e3, 2) AS mean_data_ms FROM steps GROUP BY rank ORDER BY rank",
     kNoSteps},
    {"slowest-steps", "the slowest steps of the job",
     "SELECT step, rank, round(begin_s, 3) AS begin_s, round(seconds * 1e3, 2) AS ms, round(data_s * 1e3, 2) "
     "AS "
     "data_ms, round(garbage_s * 1e3, 2) AS garbage_ms FROM steps ORDER BY seconds DESC LIMIT 20",
     kNoSteps},
    {"load", "CPU time, waits for a CPU, page faults and transfer of a step by rank",
     "SELECT rank, count(*) AS steps, round(avg(cpu_s) * 1e3, 2) AS cpu_ms, round(avg(run_delay_s) * 1e3, 2) "
     "AS run_delay_ms, round(avg(throttled_s) * 1e3, 2) AS throttled_ms, round(avg(stolen_s) * 1e3, 2) AS "
     "stolen_ms, round(avg(page_faults), 2) AS page_faults, round(avg(transfer_s) * 1e3, 2) AS "
     "transfer_ms FROM steps GROUP BY rank ORDER BY rank",
     kNoSteps},
    {"communication", "exposed and hidden communication of a step by rank",
     "SELECT rank, count(exposed_s) AS steps, round(avg(exposed_s) * 1e3, 3) AS exposed_ms, "
     "round(avg(hidden_s) * 1e3, 3) AS hidden_ms, round(100 * sum(exposed_s) / sum(seconds), 1) AS "
     "exposed_percent FROM steps WHERE exposed_s IS NOT NULL GROUP BY rank ORDER BY rank",
     kNoCollectives},
    {"captured", "the functions with the largest part of the critical path of captures, and outlier ranks",
     "SELECT capture, kind, name, round(beta, 4) AS beta, resource, round(mu, 4) AS mu, round(sigma, 4) AS "
     "sigma, outliers, round(outliers_share, 4) AS outliers_share FROM captured ORDER BY beta DESC, share "
     "DESC "
     "LIMIT 30",
     kNoCapture},
    {"idle", "how long the GPUs had nothing to do in traces and captures, and why",
     "SELECT record, rank, round(100 * void, 1) AS idle_percent, round(100 * host_wait_s / window_s, 1) AS "
     "nothing_launched_percent, round(100 * kernel_wait_s / window_s, 1) AS launched_waits_percent, "
     "round(queue_mean, 1) AS queue, outlier FROM idle WHERE window_s > 0 ORDER BY record, void DESC",
     kNoIdle},
    {"idle-gaps", "the longest gaps without work on a GPU in traces and captures, and what was around them",
     "SELECT record, rank, round(begin_s, 6) AS begin_s, round(seconds * 1e6, 1) AS us, after_work, "
     "before_work, "
     "python, call FROM gaps ORDER BY seconds DESC LIMIT 20",
     kNoIdle},
    {"links", "collectives of captures inside a node and between nodes",
     "SELECT capture, coalesce(link, 'unknown') AS link, sum(calls) AS calls, round(sum(beta), 4) AS beta, "
     "round(sum(share), 4) AS share, round(sum(calls * mean_s) / sum(calls) * 1e3, 4) AS mean_ms FROM "
     "captured "
     "WHERE kind = 'collective' GROUP BY capture, link ORDER BY capture, share DESC",
     kNoCapture},
    {"memory",
     "who holds the most memory of each rank, in its newest look and in the samples of its host memory",
     "WITH last AS (SELECT rank, reason, max(at_s) FROM memory WHERE reason NOT IN ('peak', 'heap') GROUP BY "
     "rank UNION ALL SELECT DISTINCT rank, reason, 0 FROM memory WHERE reason = 'heap') SELECT a.rank, "
     "a.reason, a.device, a.category, a.holder, a.place, a.bytes, a.blocks, a.grown FROM allocations "
     "a JOIN last USING (rank, reason) ORDER BY a.bytes DESC, a.rank LIMIT 30",
     kNoLook},
    {"failures", "ends and exceptions, in order of time",
     "SELECT round(at_s, 2) AS at_s, rank, pid, status AS what FROM deaths UNION ALL SELECT round(at_s, 2), "
     "rank, "
     "pid, type || ': ' || message FROM exceptions ORDER BY 1",
     kNoFailure},
};

}  // namespace

std::span<const ReadyQuestion> ready_questions() {
  return kQuestions;
}

}  // namespace xpurun::report
