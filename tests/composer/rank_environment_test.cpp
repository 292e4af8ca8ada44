#include "base/rank_environment.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <optional>

#include "base/error.h"
#include "tiny_run.h"

namespace composer::place_test {

using Catch::Contains;

namespace {

/// Has only these of the variables that launchers set, for its lifetime.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables) {
    for (const char* prefix :
         {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_",
          "TORCHELASTIC_", "COMPOSER_LAUNCHER", "COMPOSER_JOB_SECRET", "OMPI_", "PMIX_", "PMI_",
          "MPI_", "SLURM_", "ENVIRONMENT"})
      forget(prefix);
    for (const auto& [name, value] : variables) set(name, value);
  }
  ~Environment() {
    for (const auto& [name, value] : before_)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void keep(const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    before_.try_emplace(name, value ? std::optional<std::string>(value) : std::nullopt);
  }
  void set(const std::string& name, const std::string& value) {
    keep(name);
    setenv(name.c_str(), value.c_str(), 1);
  }
  void forget(const std::string& prefix) {
    std::vector<std::string> names;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (text.starts_with(prefix)) names.push_back(text.substr(0, text.find('=')));
    }
    for (const auto& name : names) {
      keep(name);
      unsetenv(name.c_str());
    }
  }

  std::map<std::string, std::optional<std::string>> before_;
};

RankEnvironment environment_in(const std::map<std::string, std::string>& variables) {
  const Environment environment(variables);
  return read_rank_environment();
}

/// Rank 5 of 6 on two machines of three, as srun sets it.
std::map<std::string, std::string> srun_variables() {
  return {{"SLURM_JOB_ID", "77"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NUM_TASKS", "6"},
          {"SLURM_NTASKS", "6"},
          {"SLURM_PROCID", "5"},
          {"SLURM_LOCALID", "2"},
          {"SLURM_NODEID", "1"},
          {"SLURM_STEP_NODELIST", "node[01-02]"},
          {"SLURM_STEP_TASKS_PER_NODE", "3(x2)"}};
}

}  // namespace

TEST_CASE("without a launcher there is one rank", "[ranks]") {
  CHECK(environment_in({}) == RankEnvironment());
}

TEST_CASE("torchrun's variables are understood, and count before others", "[ranks]") {
  auto variables = srun_variables();
  variables.insert({{"RANK", "3"},
                    {"WORLD_SIZE", "4"},
                    {"LOCAL_RANK", "1"},
                    {"LOCAL_WORLD_SIZE", "2"},
                    {"MASTER_ADDR", "box"},
                    {"MASTER_PORT", "1234"},
                    {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                    {"TORCHELASTIC_RESTART_COUNT", "2"}});
  const RankEnvironment expected{3, 4, 1, 2, 1, "box", 1234, true, false, false, 2};
  CHECK(environment_in(variables) == expected);
}

TEST_CASE("srun's variables are understood", "[ranks]") {
  const auto environment = environment_in(srun_variables());
  CHECK(environment.rank == 5);
  CHECK(environment.size == 6);
  CHECK(environment.local_rank == 2);
  CHECK(environment.local_size == 3);
  CHECK(environment.node_rank == 1);
  CHECK(environment.address == "node01");
  CHECK_FALSE(environment.store_is_hosted);

  auto other_job = srun_variables();
  other_job["SLURM_JOB_ID"] = "78";
  CHECK(environment_in(other_job).port != environment.port);
  other_job["MASTER_PORT"] = "4321", other_job["MASTER_ADDR"] = "elsewhere";
  CHECK(environment_in(other_job).port == 4321);
  CHECK(environment_in(other_job).address == "elsewhere");
  CHECK(environment_in(other_job).secret.empty());
  other_job["COMPOSER_JOB_SECRET"] = "ours";
  CHECK(environment_in(other_job).secret == "ours");

  auto one_machine = srun_variables();
  one_machine["SLURM_STEP_NODELIST"] = "node7", one_machine["SLURM_STEP_TASKS_PER_NODE"] = "6";
  one_machine["SLURM_NODEID"] = "0", one_machine["SLURM_LOCALID"] = "5";
  CHECK(environment_in(one_machine).address == "127.0.0.1");
  CHECK(environment_in(one_machine).local_size == 6);

  auto uneven = srun_variables();
  uneven["SLURM_STEP_TASKS_PER_NODE"] = "2,4";
  CHECK(environment_in(uneven).local_size == 4);
}

TEST_CASE("the least that srun sets is enough", "[ranks]") {
  const auto environment = environment_in({{"SLURM_PROCID", "1"},
                                           {"SLURM_NTASKS", "2"},
                                           {"SLURM_LOCALID", "1"},
                                           {"SLURM_NODEID", "0"},
                                           {"SLURM_JOB_NODELIST", "localhost"}});
  RankEnvironment expected{1, 2, 1, 2};
  expected.may_see_own_gpu = true;
  CHECK(environment == expected);
}

TEST_CASE("a batch script and a shell of SLURM's are no ranks", "[ranks]") {
  CHECK(environment_in({{"SLURM_JOB_ID", "77"}, {"SLURM_NTASKS", "4"}}).size == 1);
  CHECK(environment_in({{"SLURM_JOB_ID", "77"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_PROCID", "0"},
                        {"SLURM_LOCALID", "0"},
                        {"SLURM_NODEID", "0"},
                        {"ENVIRONMENT", "BATCH"}})
            .size == 1);
  CHECK(environment_in({{"SLURM_JOB_ID", "77"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_PROCID", "0"},
                        {"SLURM_STEP_ID", "4294967290"}})
            .size == 1);
  CHECK(environment_in({{"SLURM_JOB_ID", "77"},
                        {"SLURM_NTASKS", "4"},
                        {"SLURM_STEP_NUM_TASKS", "1"},
                        {"SLURM_PROCID", "0"},
                        {"SLURM_STEP_ID", "1"}})
            .size == 1);
}

TEST_CASE("mpirun's variables are understood", "[ranks]") {
  const std::map<std::string, std::string> open_mpi{{"OMPI_COMM_WORLD_RANK", "3"},
                                                    {"OMPI_COMM_WORLD_SIZE", "4"},
                                                    {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                                    {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                                    {"PMIX_NAMESPACE", "123"}};
  auto environment = environment_in(open_mpi);
  CHECK(environment.rank == 3);
  CHECK(environment.local_size == 4);
  CHECK(environment.address == "127.0.0.1");

  auto machines = open_mpi;
  machines["OMPI_COMM_WORLD_LOCAL_RANK"] = "1", machines["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";
  CHECK_THROWS_WITH(environment_in(machines), Contains("MASTER_ADDR: is not set; mpirun"));
  machines["MASTER_ADDR"] = "box";
  environment = environment_in(machines);
  CHECK(environment.address == "box");
  CHECK(environment.node_rank == 1);
  // Inside an allocation, helpers of mpirun are steps of one task a machine.
  auto inside = srun_variables();
  inside.insert(machines.begin(), machines.end());
  CHECK(environment_in(inside).size == 4);

  environment = environment_in(
      {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  CHECK(environment.rank == 1);
  CHECK(environment.size == 2);
  CHECK(environment.local_rank == 1);
  CHECK(environment.may_see_own_gpu);
  const auto port_of = [](const std::string& job) {
    return environment_in({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", job}}).port;
  };
  CHECK(port_of("1") != port_of("2"));
}

TEST_CASE("variables that make no sense are named", "[ranks]") {
  CHECK_THROWS_WITH(environment_in({{"WORLD_SIZE", "2"}}), Contains("RANK: is not set"));
  CHECK_THROWS_WITH(environment_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), Contains("RANK: '2'"));
  CHECK_THROWS_WITH(environment_in({{"RANK", "0"}, {"WORLD_SIZE", "two"}}), Contains("WORLD_SIZE"));
  CHECK_THROWS_WITH(environment_in({{"RANK", "0"}, {"MASTER_PORT", "70000"}}),
                    Contains("MASTER_PORT"));
  CHECK_THROWS_WITH(environment_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "box"}}),
                    Contains("LOCAL_WORLD_SIZE: is not set"));
  CHECK_THROWS_WITH(environment_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MASTER_ADDR", "box"}}),
                    Contains("MPI_LOCALNRANKS: is not set") && Contains("2 ranks (PMI_SIZE)"));
  CHECK(environment_in({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}})
            .local_size == 2);
  CHECK_THROWS_WITH(environment_in({{"SLURM_PROCID", "7"}, {"SLURM_NTASKS", "4"}}),
                    Contains("SLURM_PROCID: '7'"));
}

TEST_CASE("SLURM's lists of machines are expanded", "[ranks]") {
  using Names = std::vector<std::string>;
  CHECK(machines_of("node7") == Names{"node7"});
  CHECK(machines_of("a,b-2,c") == Names{"a", "b-2", "c"});
  CHECK(machines_of("node[01-03,7],login") ==
        Names{"node01", "node02", "node03", "node7", "login"});
  CHECK(machines_of("r[9-11]s.x,q[1]") == Names{"r9s.x", "r10s.x", "r11s.x", "q1"});
  CHECK_THROWS_AS(machines_of("node[1-"), UserError);
  CHECK_THROWS_AS(machines_of("node[3-1]"), UserError);
}

TEST_CASE("a trainer that forgets to join the ranks is refused", "[ranks]") {
  const Environment environment({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}});
  Trainer trainer(tiny_parts());
  CHECK_THROWS_WITH(trainer.fit(),
                    "rank 1 of 2: TrainerParts has no ranks: each process would train by itself; "
                    "call join(parts) before the Trainer is made");
}

}  // namespace composer::place_test
