#include "base/rank_environment.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr int64_t most_ranks = 1 << 20;

/// The first number of SLURM's steps that srun did not start: batch scripts, interactive shells.
constexpr int64_t first_special_step = 0xfffffff0;

/// Ports of jobs that give none: below the ports that systems hand out.
constexpr uint64_t first_job_port = 20000, job_ports = 12000;

std::optional<std::string> text(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::optional<std::string> first_text(std::initializer_list<const char*> names) {
  for (const char* const name : names)
    if (auto value = text(name)) return value;
  return {};
}

int64_t checked_number(const std::string& name, std::string_view word, int64_t least,
                       int64_t most) {
  const auto value = to_number<int64_t>(word);
  if (!value || *value < least || *value > most)
    throw UserError(name + ": '" + std::string(word) + "' is no whole number from " +
                    std::to_string(least) + " to " + std::to_string(most) +
                    "; whoever starts the ranks sets this variable");
  return *value;
}

int64_t variable(const char* name, int64_t otherwise, int64_t least, int64_t most) {
  const auto value = text(name);
  return value ? checked_number(name, *value, least, most) : otherwise;
}

bool is(const char* name, std::string_view value) { return text(name) == value; }

/// Reads the address, port and secret with which the ranks meet.
void read_meeting_point(RankEnvironment& environment) {
  if (const auto address = text("MASTER_ADDR")) environment.address = *address;
  // Launchers of one process set port 0, for any.
  if (environment.size > 1 || text("MASTER_PORT") != "0")
    environment.port = static_cast<uint16_t>(variable("MASTER_PORT", environment.port, 1, 65535));
  environment.secret = text(job_secret_variable).value_or("");
}

/// A port by the job's name, so that jobs on one machine differ.
uint16_t port_of_job(const std::string& job) {
  return static_cast<uint16_t>(first_job_port + fnv1a(job) % job_ports);
}

/// Without the variable `local_size` all ranks count as being on one machine. UserError when
/// MASTER_ADDR names another machine.
void check_local_size(const RankEnvironment& environment, const char* size,
                      const char* local_size) {
  const auto address = text("MASTER_ADDR");
  if (environment.size == 1 || text(local_size) || !address) return;
  if (*address == "localhost" || *address == "::1" || address->starts_with("127.")) return;
  throw UserError(std::string(local_size) + ": is not set, but MASTER_ADDR is " + *address +
                  ": say how many of the " + std::to_string(environment.size) + " ranks (" + size +
                  ") are on this machine");
}

/// The names of the variables in which a launcher passes a rank's position.
struct RankVariables {
  const char *rank, *size, *local_rank, *local_size;
};

/// The rank's position by these variables. The node's rank assumes that all nodes have as many
/// ranks as this one.
RankEnvironment environment_by(const RankVariables& names) {
  RankEnvironment environment;
  environment.size = variable(names.size, 1, 1, most_ranks);
  environment.rank = variable(names.rank, 0, 0, environment.size - 1);
  check_local_size(environment, names.size, names.local_size);
  environment.local_size = variable(names.local_size, environment.size, 1, environment.size);
  environment.local_rank = variable(names.local_rank, environment.rank % environment.local_size, 0,
                                    environment.local_size - 1);
  environment.node_rank = environment.rank / environment.local_size;
  return environment;
}

/// The variables of this program's launcher and of torchrun.
RankEnvironment environment_by_torch() {
  const int64_t size = variable("WORLD_SIZE", 1, 1, most_ranks);
  if (size > 1 && !text("RANK"))
    throw UserError("RANK: is not set, but WORLD_SIZE is " + std::to_string(size) +
                    "; start the ranks with composer -n, torchrun, srun or mpirun");
  auto environment = environment_by({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  environment.node_rank = variable("NODE_RANK", environment.node_rank, 0, environment.size - 1);
  environment.store_is_hosted = is("TORCHELASTIC_USE_AGENT_STORE", "True");
  environment.by_launcher = is("COMPOSER_LAUNCHER", "1");
  environment.has_own_cores = is("COMPOSER_BIND", "cores");
  environment.restart = variable("TORCHELASTIC_RESTART_COUNT", 0, 0, most_ranks);
  return environment;
}

/// UserError when ranks on several machines are not told where to meet.
void check_address(const RankEnvironment& environment, const char* starter) {
  if (environment.local_size < environment.size && !text("MASTER_ADDR"))
    throw UserError("MASTER_ADDR: is not set; " + std::string(starter) +
                    " does not tell ranks of several machines where rank 0 is: set it to that "
                    "machine's name or address");
}

/// job: the job's name, if the launcher passes one.
RankEnvironment environment_by_mpi(const RankVariables& names,
                                   const std::optional<std::string>& job) {
  auto environment = environment_by(names);
  environment.may_see_own_gpu = true;
  check_address(environment, "mpirun");
  if (job) environment.port = port_of_job(*job);
  return environment;
}

/// The number of tasks of the step that srun started. 1 for a batch script or a shell: they see the
/// number of tasks of their allocation, but are no step of srun.
int64_t tasks_of_step() {
  if (!text("SLURM_PROCID")) return 1;
  const auto step = first_text({"SLURM_STEP_ID", "SLURM_STEPID"});
  if (!step && is("ENVIRONMENT", "BATCH")) return 1;
  if (step && checked_number("SLURM_STEP_ID", *step, 0, 0xffffffff) >= first_special_step) return 1;
  for (const char* const name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"})
    if (text(name)) return variable(name, 1, 1, most_ranks);
  return 1;
}

/// "4(x2),3" is 4, 4, 3.
std::vector<int64_t> tasks_of_machines(const char* name, std::string_view list) {
  std::vector<int64_t> tasks;
  for (const auto part : separated(list, ',')) {
    const size_t times_at = part.find("(x");
    int64_t times = 1;
    if (times_at != std::string_view::npos && part.ends_with(')'))
      times = checked_number(name, part.substr(times_at + 2, part.size() - times_at - 3), 1,
                             most_ranks);
    const auto each = checked_number(name, part.substr(0, times_at), 1, most_ranks);
    tasks.insert(tasks.end(), static_cast<size_t>(times), each);
  }
  return tasks;
}

int64_t tasks_of_machine(const RankEnvironment& environment, size_t machines) {
  for (const char* const name :
       {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE"})
    if (const auto list = text(name)) {
      const auto tasks = tasks_of_machines(name, *list);
      const auto here = static_cast<size_t>(environment.node_rank);
      return std::min(here < tasks.size() ? tasks[here] : tasks.back(), environment.size);
    }
  const auto count = static_cast<int64_t>(std::max<size_t>(machines, 1));
  return (environment.size + count - 1) / count;
}

RankEnvironment environment_by_srun(int64_t tasks) {
  RankEnvironment environment;
  environment.may_see_own_gpu = true;
  environment.size = tasks;
  environment.rank = variable("SLURM_PROCID", 0, 0, environment.size - 1);
  environment.node_rank = variable("SLURM_NODEID", 0, 0, environment.size - 1);
  const auto list = first_text({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  const auto machines = list ? machines_of(*list) : std::vector<std::string>();
  environment.local_size = tasks_of_machine(environment, machines.size());
  environment.local_rank = variable("SLURM_LOCALID", environment.rank % environment.local_size, 0,
                                    environment.local_size - 1);
  if (machines.size() > 1)
    environment.address = machines[0];
  else if (machines.empty())
    check_address(environment, "an srun without SLURM_STEP_NODELIST");
  if (const auto job = first_text({"SLURM_JOB_ID", "SLURM_JOBID"}))
    environment.port =
        port_of_job(*job + "." + first_text({"SLURM_STEP_ID", "SLURM_STEPID"}).value_or("0"));
  return environment;
}

/// mpirun inside an allocation starts its helpers by srun, whose variables its ranks see too.
RankEnvironment environment_by_any() {
  if (text("WORLD_SIZE") || text("RANK")) return environment_by_torch();
  if (text("OMPI_COMM_WORLD_RANK"))
    return environment_by_mpi({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                               "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                              first_text({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}));
  const int64_t tasks = tasks_of_step();
  const bool pmi_of_srun = tasks > 1 && text("PMI_RANK") == text("SLURM_PROCID");
  if (text("PMI_RANK") && !pmi_of_srun)  // MPICH's or Intel's mpirun
    return environment_by_mpi({"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                              text("PMI_JOBID"));
  return tasks > 1 ? environment_by_srun(tasks) : RankEnvironment();
}

/// Adds prefix + number + suffix for each number of `ranges`, such as "01-03,7".
void expand(const std::string& list, const std::string& prefix, std::string_view ranges,
            const std::string& suffix, std::vector<std::string>& machines) {
  for (const auto range : separated(ranges, ',')) {
    const size_t dash = std::min(range.find('-'), range.size());
    const auto first = range.substr(0, dash);
    const auto last = dash < range.size() ? range.substr(dash + 1) : first;
    const std::string name = "the list of machines " + list;
    const auto from = checked_number(name, first, 0, 1 << 30);
    const auto to = checked_number(name, last, from, from + most_ranks);
    for (int64_t number = from; number <= to; ++number) {
      auto digits = std::to_string(number);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      machines.push_back(prefix + digits + suffix);
    }
  }
}

}  // namespace

std::vector<std::string> machines_of(const std::string& list) {
  std::vector<std::string> machines;
  for (size_t begin = 0; begin < list.size();) {
    size_t end = begin, open = std::string::npos, close = std::string::npos;
    for (; end < list.size() && (list[end] != ',' || (open < end && close == std::string::npos));
         ++end) {
      if (list[end] == '[' && open == std::string::npos) open = end;
      if (list[end] == ']' && open != std::string::npos) close = end;
    }
    if ((open == std::string::npos) != (close == std::string::npos))
      throw UserError("SLURM_STEP_NODELIST: '" + list + "' is no list of machines");
    if (open == std::string::npos)
      machines.push_back(list.substr(begin, end - begin));
    else
      expand(list, list.substr(begin, open - begin),
             std::string_view(list).substr(open + 1, close - open - 1),
             list.substr(close + 1, end - close - 1), machines);
    begin = end + 1;
  }
  return machines;
}

RankEnvironment read_rank_environment() {
  auto environment = environment_by_any();
  read_meeting_point(environment);
  return environment;
}

}  // namespace composer
