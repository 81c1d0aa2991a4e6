// JobIdentity: which node of which job this xpurun is. "Node" means what one xpurun supervises: a host, a
// pod, or a single task of srun or mpirun. Pure functions of environments; any thread.
#pragma once

#include "common/base/ids.h"
#include "launcher/nodes/job_mark.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

using Environment = std::map<std::string, std::string>;

struct IdentitySources {
  Environment own;     // of xpurun itself
  Environment rank;    // of one rank; empty: no rank is known yet
  int nodes = 0;       // as given by the user; 0: not given
  int node_rank = -1;  // as given by the user; -1: not given
  std::string name;    // as given by the user; empty: not given
};

struct JobIdentity {
  int nodes = 0;                        // of the job; 0: not known
  int node_rank = -1;                   // -1: not known
  int world_size = 0;                   // 0: not known
  std::vector<base::Rank> local_ranks;  // expected on this node; empty: not known
  std::string run;                      // what all nodes of the job share; empty: nothing
  JobMark mark;

  bool several_nodes() const { return nodes > 1; }
  // What keeps this node from joining the others, and the option that helps; empty: nothing.
  std::string missing() const;
};

// Without the environment of a rank, `nodes` rests on what the user gave: a launcher of several jobs of one
// node each looks like a launcher of one job.
JobIdentity job_identity(const IdentitySources& sources);

// A word for subjects and file names, of letters, digits, "-" and "_". Different texts give different words.
std::string plain_word(std::string_view text);

// The name of a node, unique in its job: "3-h17".
std::string node_name(int node_rank, std::string_view host);

}  // namespace xpurun::launcher
