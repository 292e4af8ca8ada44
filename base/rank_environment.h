// The position of a process among the ranks of its run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace composer {

/// The variable with the job's secret: the same for all processes of a job, unknown to others.
inline constexpr const char* job_secret_variable = "COMPOSER_JOB_SECRET";

/// The position of a process among the ranks, from its launcher's variables.
struct RankEnvironment {
  int64_t rank = 0, size = 1;
  int64_t local_rank = 0, local_size = 1;  ///< rank and number of ranks on this machine
  int64_t node_rank = 0;                   ///< the number of this machine among the run's machines
  std::string address = "127.0.0.1";       ///< the machine of the store where the ranks meet
  uint16_t port = 29500;                   ///< the store's port
  bool store_is_hosted = false;  ///< true: the launcher hosts the store; false: rank 0 does
  bool by_launcher = false;  ///< true: started by this program's launcher, which shows their output
  bool has_own_cores = false;    ///< true: bound to processors that no other rank runs on
  int64_t restart = 0;           ///< how often the launcher has restarted all ranks
  bool may_see_own_gpu = false;  ///< true: a scheduler may show each process one GPU only
  std::string secret{};          ///< the job's secret, part of the names of the ranks' messages

  bool operator==(const RankEnvironment&) const = default;
};

/// A rank's share of the global batch.
struct Share {
  int64_t first = 0;    ///< the index of the rank's first sample
  int64_t own = 0;      ///< the number of the rank's samples
  int64_t samples = 0;  ///< the number of all ranks' samples
  int64_t shares = 1;   ///< the number of shares of the batch
};

/// The index of the first sample of a rank's share of a batch of `samples`. The share ends where
/// the next rank's begins. Shares differ by one sample at most.
constexpr int64_t share_begin(int64_t samples, int64_t rank, int64_t ranks) {
  return samples * rank / ranks;
}

/// Reads the variables that a launcher sets: this program's launcher and torchrun (RANK,
/// WORLD_SIZE, ...), else mpirun (OMPI_COMM_WORLD_RANK, ...; PMI_RANK, PMI_SIZE), else srun
/// (SLURM_PROCID, ...; not a batch script or a shell inside an allocation). Without them there is
/// one rank. MASTER_ADDR, MASTER_PORT and COMPOSER_JOB_SECRET count in all cases. UserError names a
/// variable that is missing or invalid.
RankEnvironment read_rank_environment();

/// The machines of a list in SLURM's form: "node[01-03,7],login" is node01, node02, node03, node7,
/// login. UserError when the text is no such list.
std::vector<std::string> machines_of(const std::string& list);

}  // namespace composer
