// Words for what was counted about the host of a job, and which of these facts count.
#pragma once

#include "common/model/evidence/machine.h"
#include "common/model/run_manifest.h"

#include <string>
#include <vector>

namespace xpurun::report {

// The spells that say something: one busy reading is no pressure, and ranks that take CPUs from each other
// are too many for the host, which other facts say.
std::vector<model::MachineSpell> telling_spells(const model::MachineHistory& history,
                                                const model::MachineSeries& series);
// The spells that last, whoever is their cause.
std::vector<model::MachineSpell> lasting_spells(const model::MachineSeries& series);

// "mlx5_0/1, losses of the link: 3", "/data is 97 % full". `amount`: events or the largest share.
std::string machine_words(const model::MachineHistory& history, const model::MachineSeries& series,
                          double amount);

// "all ranks were ready to run and had no CPU for up to 38 % of the time; stress-ng (pid 4711) had 92 % of
// the CPUs of rank 2". `rank`: one of them.
std::string no_cpu_of_all_words(const model::MachineHistory& history, base::Rank rank, double amount);

// Who had most of the time of a rank's CPUs while its threads were ready to run: a stranger, if one had much
// of it. Null: nobody was seen.
const model::Intruder* main_intruder(const model::MachineHistory& history, base::Rank rank);
bool is_stranger(const model::Intruder& intruder);
// "stress-ng (pid 4711, /user.slice)", "rank 2 (pid 7)"
std::string intruder_words(const model::Intruder& intruder);

// "host b: " where the job has several; `node`: index into RunManifest::nodes.
std::string on_host(const model::RunManifest& run, size_t node);

// The retransmitted share of the TCP segments that the host sent during the run, where it is large; else 0.
double tcp_loss(const model::MachineHistory& history);

}  // namespace xpurun::report
