// Where a process stands among the ranks of its run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace composer {

/// The same word in the environment of all processes of a job, which others do not know.
inline constexpr const char* job_secret_variable = "COMPOSER_JOB_SECRET";

/// The place of a process among the ranks, as whoever started it says.
struct RankEnvironment {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  ///< on this machine
  int64_t node_rank = 0;                   ///< of this machine
  std::string address = "127.0.0.1";       ///< of the machine that the ranks meet at
  uint16_t port = 29500;
  bool store_is_hosted = false;  ///< by the launcher; else rank 0 hosts it
  bool by_launcher = false;      ///< by this program's own, which shows what ranks print
  bool has_own_cores = false;    ///< it is bound to processors that no other rank runs on
  int64_t restart = 0;           ///< how often all ranks have been started again
  bool may_see_own_gpu = false;  ///< alone: schedulers may show each process one GPU
  std::string secret{};          ///< of the job, in the names of what the ranks tell each other

  bool operator==(const RankEnvironment&) const = default;
};

/// The place of a rank's share in the batch of all.
struct Share {
  int64_t first = 0;    ///< place of the rank's first sample
  int64_t own = 0;      ///< samples of the rank
  int64_t samples = 0;  ///< of all ranks
  int64_t shares = 1;   ///< that the batch is divided into
};

/// Where the share of a rank begins among `samples` of a batch; it ends where that of the next one
/// does. Shares differ by one sample at most.
constexpr int64_t share_begin(int64_t samples, int64_t rank, int64_t ranks) {
  return samples * rank / ranks;
}

/// From the environment that a launcher makes: this program's and torchrun (RANK, WORLD_SIZE, ...),
/// else mpirun (OMPI_COMM_WORLD_RANK, ...; PMI_RANK, PMI_SIZE), else srun (SLURM_PROCID, ...; not a
/// batch script or a shell inside an allocation). One rank where none of them is set. MASTER_ADDR,
/// MASTER_PORT and COMPOSER_JOB_SECRET count in all cases. UserError naming a variable that is
/// missing or makes no sense.
RankEnvironment read_rank_environment();

/// The machines of a list as SLURM writes it: "node[01-03,7],login" is node01, node02, node03,
/// node7, login. UserError when it is none.
std::vector<std::string> machines_of(const std::string& list);

}  // namespace composer
