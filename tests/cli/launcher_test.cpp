#include "cli/launcher.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/machine_limits.h"
#include "cli/job_watch.h"
#include "cli/rank_logs.h"
#include "tests/cli/program.h"
#include "tests/ranks/rank_processes.h"
#include "tests/temporary_folder.h"

namespace composer::launcher_test {

namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void write_program(const TemporaryFolder& folder, const std::string& name,
                   const std::string& script) {
  folder.write(name, "#!/bin/sh\n" + script);
  std::filesystem::permissions(folder / name, std::filesystem::perms::owner_exec,
                               std::filesystem::perm_options::add);
}

void wait_for(const std::filesystem::path& path) {
  for (int i = 0; i < 6000 && !std::filesystem::exists(path); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

/// Whether the process, which is no child of this one, is gone or a zombie that nobody waits for.
bool ends_within(double seconds, pid_t id) {
  const double until = steady_seconds() + seconds;
  const auto state = [&] {
    std::ifstream file("/proc/" + std::to_string(id) + "/stat");
    std::string number, name, letter;
    file >> number >> name >> letter;
    return letter;
  };
  while (steady_seconds() < until) {
    if (const auto letter = state(); letter.empty() || letter == "Z") return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

/// hwloc's description of a machine with two memory nodes, each with one of these processors of
/// this one, and a GPU at 0000:01:00.0 and 0000:02:00.0.
std::string two_nodes(int first, int second) {
  int id = 1;
  const auto begin = [&](const std::string& type, uint32_t cores, uint32_t nodes,
                         const std::string& more) {
    std::ostringstream text;
    text << "<object type=\"" << type << "\" gp_index=\"" << ++id << "\" " << more << std::hex;
    for (const char* which : {"", "complete_"})
      if (cores != 0)
        text << ' ' << which << "cpuset=\"0x" << cores << "\" " << which << "nodeset=\"0x" << nodes
             << '"';
    text << '>';
    return text.str();
  };
  const std::string end = "</object>";
  const uint32_t both = 1u << first | 1u << second;
  auto xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<topology version=\"2.0\">" +
             begin("Machine", both, 3, "os_index=\"0\"");
  for (const auto& [number, core] : {std::pair{0, first}, {1, second}}) {
    const uint32_t cores = 1u << core, nodes = 1u << number;
    const auto index = [](int value) { return "os_index=\"" + std::to_string(value) + "\""; };
    const auto bus = "0" + std::to_string(number + 1);
    xml += begin("Package", cores, nodes, index(number)) +
           begin("NUMANode", cores, nodes, index(number) + " local_memory=\"1024\"") + end +
           begin("PU", cores, nodes, index(core)) + end +
           begin("Bridge", 0, 0,
                 "bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"0000:[" + bus + "-" + bus + "]\"") +
           begin("PCIDev", 0, 0,
                 "pci_busid=\"0000:" + bus +
                     ":00.0\" pci_type=\"0302 [10de:2330] [10de:0000] a1\" "
                     "pci_link_speed=\"0\"") +
           end + end + end;
  }
  return xml + end + "</topology>\n";
}

/// A launcher of one rank on each of two machines, here both this one.
struct TwoLaunchers {
  TwoLaunchers(const TemporaryFolder& folder, const std::string& options)
      : first(start(folder, "0", options)), second(start(folder, "1", options)) {}

  const std::string port = std::to_string(test::free_port());
  const Process first, second;

 private:
  Process start(const TemporaryFolder& folder, const std::string& node_rank,
                const std::string& options) const {
    return {folder.path(), split("-n 1 --world_size 2 --master_addr 127.0.0.1 --node_rank " +
                                 node_rank + " --master_port " + port + " " + options)};
  }
};

}  // namespace

TEST_CASE("ranks are told their place among all", "[cli]") {
  Words words = split(
      "-n 2 --node_rank 1 --world_size 6 --master_addr box --master_port 29501 --max_restarts=3 "
      "./show");
  const Launch launch = take_launch_options(words);
  CHECK(words == Words{"./show"});
  CHECK(launch.max_restarts == 3);
  const std::map<std::string, std::string> expected{
      {"RANK", "3"},           {"LOCAL_RANK", "1"},
      {"WORLD_SIZE", "6"},     {"LOCAL_WORLD_SIZE", "2"},
      {"NODE_RANK", "1"},      {"MASTER_ADDR", "box"},
      {"MASTER_PORT", "29501"}};
  CHECK(rank_environment(launch, 1) == expected);
}

TEST_CASE("each job has a port of its own, at which its launcher hosts the store", "[cli]") {
  const TemporaryFolder folder;
  Words words = split("-n 2");
  const Launch launch = take_launch_options(words);
  const Command show{"/bin/sh",
                     {"-c",
                      "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $NODE_RANK "
                      "$TORCHELASTIC_USE_AGENT_STORE $TORCHELASTIC_RESTART_COUNT $MASTER_ADDR "
                      "> $RANK; echo $MASTER_PORT > port$RANK"},
                     {},
                     folder.path()};
  CHECK(run_ranks(launch, show) == 0);
  CHECK(lines_of(folder / "0") == Words{"0 0 2 2 0 True 0 127.0.0.1"});
  CHECK(lines_of(folder / "1") == Words{"1 1 2 2 0 True 0 127.0.0.1"});
  const auto port = lines_of(folder / "port0");
  CHECK(lines_of(folder / "port1") == port);
  CHECK(run_ranks(launch, show) == 0);
  CHECK(lines_of(folder / "port0") != port);
}

TEST_CASE("a program is started by a path, and never in place of a mistyped subcommand", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "trian", "touch ran\n");
  for (const char* words : {"trian", "-n 2 trian --max_duration 1ep"}) {
    const auto outcome = run(folder.path(), split(words));
    CHECK(outcome.status == 2);
    CHECK(outcome.errors ==
          "composer: 'trian' is no subcommand; the program of that name is started as ./trian\n");
  }
  CHECK_FALSE(std::filesystem::exists(folder / "ran"));
  CHECK_THAT(run(folder.path(), {"./none"}).errors,
             Catch::StartsWith("composer: './none' is no program"));
  CHECK(run(folder.path(), {"./trian"}).status == 0);
  CHECK(std::filesystem::exists(folder / "ran"));
}

TEST_CASE("machines that do not make up the world are refused", "[cli]") {
  const auto take = [](const std::string& node_rank, const std::string& world_size) {
    Words words{"-n",          "4",       "--world_size",  world_size,
                "--node_rank", node_rank, "--master_addr", "box"};
    return take_launch_options(words);
  };
  CHECK(take("1", "8").node_rank == 1);
  CHECK_THROWS_AS(take("2", "8"), UserError);
  CHECK_THROWS_AS(take("1", "6"), UserError);
  CHECK_THROWS_WITH(take("9223372036854775807", "8"),
                    Catch::Contains("node ranks below 2, not 9223372036854775807"));
}

TEST_CASE("no file becomes a standard stream that was closed", "[cli]") {
  const TemporaryFolder folder;
  const Process training(
      folder.path(),
      {"-c", "exec " PROGRAM
             " train --run_dir . --run_name run --train_dataset.shapes.samples 256 --max_duration "
             "100000ep --eval_interval 0 --save_interval 0 <&- >&- 2>&-"},
      "/bin/sh");
  const auto lock = folder / "run/.lock";
  for (int i = 0; i < 600 && !std::filesystem::exists(lock); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(std::filesystem::exists(lock));
  const auto streams = std::filesystem::path("/proc") / std::to_string(training.id()) / "fd";
  for (const char* stream : {"0", "1", "2"})
    CHECK(std::filesystem::read_symlink(streams / stream) == "/dev/null");
  training.signal(SIGKILL);
  training.wait();
}

TEST_CASE("a rank that fails ends the others and gives its status and its last lines", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "fails",
                "[ $RANK != 1 ] || { echo it is broken; exit 7; }\n"
                "echo rank $RANK; trap '' TERM; exec sleep 100\n");
  const double begin = steady_seconds();
  const auto outcome = run(folder.path(), split("-n 3 ./fails"));
  CHECK(steady_seconds() - begin < 20);  // not 30, nor 100
  CHECK(outcome.status == 7);
  CHECK(outcome.output == "rank 0\n");
  CHECK(outcome.errors == "rank 1 failed with status 7; its last lines:\n  it is broken\n");
}

TEST_CASE("ranks that lost the others are not the ones that failed", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "lost",
                "[ $RANK = 1 ] || { echo no answer; exit 113; }\nsleep 0.05; kill -9 $$\n");
  auto outcome = run(folder.path(), split("-n 3 ./lost"));
  CHECK(outcome.status == 137);
  CHECK(outcome.errors == "rank 1 was killed by signal 9 (Killed)\n");

  write_program(folder, "lost", "[ $RANK = 1 ] || exec sleep 100\necho no answer; exit 113\n");
  outcome = run(folder.path(), split("-n 2 ./lost"));
  CHECK(outcome.status == 1);
  CHECK(outcome.errors == "rank 1 lost the other ranks; its last lines:\n  no answer\n");
}

TEST_CASE("what all ranks say is shown once", "[cli]") {
  const TemporaryFolder folder;
  const auto outcome = run(folder.path(), split("-n 2 train --max_duration 0ep"));
  CHECK(outcome.status == 2);
  CHECK(outcome.errors.find("max_duration") == outcome.errors.rfind("max_duration:"));
}

TEST_CASE("ranks that failed start again as often as is allowed", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "fails",
                "echo $TORCHELASTIC_RESTART_COUNT\n"
                "[ $RANK = 1 ] && exit 7\nexec sleep 100\n");
  const auto outcome = run(folder.path(), split("-n 2 --max_restarts 1 ./fails"));
  CHECK(outcome.status == 7);
  CHECK(outcome.output == "0\n1\n");
  CHECK(outcome.errors.find("(1 of at most 1 times)") != std::string::npos);
  CHECK(outcome.errors.find("rank 1 failed with status 7") != std::string::npos);
}

TEST_CASE("wrong input is no reason to start again", "[cli]") {
  const TemporaryFolder folder;
  const auto outcome =
      run(folder.path(), split("-n 1 --max_restarts 5 train --max_duration 0ep --run_dir none"));
  CHECK(outcome.status == 2);
  CHECK(outcome.errors.find("start again") == std::string::npos);
}

TEST_CASE("a SIGTERM reaches all ranks and gives the status that asks for a requeue", "[cli]") {
  const TemporaryFolder folder;
  const auto hangup = std::signal(SIGHUP, SIG_DFL);  // ignored under nohup, and children keep that
  write_program(folder, "waits", "touch began$RANK; exec sleep 100\n");
  for (const auto& [options, number, status] : {std::tuple{"-n 2 --requeue_status 85", SIGTERM, 85},
                                                {"-n 2", SIGTERM, 143},
                                                {"-n 1 --requeue_status 85", SIGTERM, 85},
                                                {"-n 2 --max_restarts 1", SIGUSR1, 138},
                                                {"-n 2 --requeue_status 85", SIGUSR1, 85},
                                                {"-n 2 --requeue_status 85", SIGHUP, 85},
                                                {"-n 2 --requeue_status 85", SIGINT, 130}}) {
    INFO(options);
    const Process process(folder.path(), split(options) + Words{"./waits"});
    wait_for(folder / "began0");
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    process.signal(number);
    const auto outcome = process.wait();
    CHECK(outcome.status == status);
    CHECK(outcome.errors == "");
    std::filesystem::remove(folder / "began0");
  }
  std::signal(SIGHUP, hangup);
}

TEST_CASE("a rank that a SIGTERM ends by itself ends the others", "[cli]") {
  const TemporaryFolder folder;
  const double begin = steady_seconds();
  for (const auto& [signal, status] : {std::pair{"TERM", 143}, {"USR1", 138}}) {
    write_program(folder, "ends",
                  std::string("[ $RANK != 1 ] || kill -") + signal + " $$\nexec sleep 100\n");
    CHECK(run(folder.path(), split("-n 3 ./ends")).status == status);
  }
  CHECK(steady_seconds() - begin < 20);  // not 30, nor 100
}

TEST_CASE("ranks that lose others as these end are ended as was asked", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "waits",
                "[ $RANK != 1 ] || trap 'exit 113' TERM\n"
                "touch began$RANK; while :; do sleep 0.05; done 2>/dev/null\n");
  const Process process(folder.path(), split("-n 2 --requeue_status 85 --max_restarts 1 ./waits"));
  for (const char* name : {"began0", "began1"}) wait_for(folder / name);
  process.signal(SIGTERM);
  CHECK(process.wait().status == 85);
}

TEST_CASE("a failure on another machine is the job's", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "fails", "[ $RANK = $WHICH ] && exit 7\nexec sleep 100\n");
  for (const char* which : {"0", "1"}) {
    setenv("WHICH", which, 1);
    const TwoLaunchers launchers(folder, "--requeue_status 85 ./fails");
    CHECK(launchers.first.wait().status == 7);
    CHECK(launchers.second.wait().status == 7);
  }
  unsetenv("WHICH");
}

TEST_CASE("a SIGTERM on another machine is the job's", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "waits", "touch began$RANK; exec sleep 100\n");
  const TwoLaunchers launchers(folder, "--requeue_status 85 ./waits");
  for (const char* name : {"began0", "began1"}) wait_for(folder / name);
  launchers.second.signal(SIGTERM);
  CHECK(launchers.first.wait().status == 85);
  CHECK(launchers.second.wait().status == 85);
}

TEST_CASE("the first machine, done, waits for the others and starts again with them", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "fails",
                "echo $TORCHELASTIC_RESTART_COUNT >> starts$RANK\n"
                "[ $RANK = 0 ] || { sleep 1; exit $((1 - TORCHELASTIC_RESTART_COUNT)); }\n");
  const TwoLaunchers launchers(folder, "--max_restarts 1 ./fails");
  CHECK(launchers.first.wait().status == 0);
  CHECK(launchers.second.wait().status == 0);
  CHECK(lines_of(folder / "starts0") == Words{"0", "1"});
  CHECK(lines_of(folder / "starts1") == Words{"0", "1"});
}

TEST_CASE("a socket that the other end has closed does not end a process that has a store",
          "[cli]") {
  const auto before = std::signal(SIGPIPE, SIG_DFL);
  const auto store = JobStore::host({}, 5);
  CHECK(std::raise(SIGPIPE) == 0);
  std::signal(SIGPIPE, before);
}

TEST_CASE("a store that does not answer keeps nobody waiting", "[cli]") {
  const auto store = JobStore::host({}, 5);
  const auto news_in = [](double seconds) {
    return [seconds](JobStore&) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
      return JobNews{.run_folder = {}, .status = 7, .starts = 2};
    };
  };
  const double begin = steady_seconds();
  {
    JobWatch watch(store, news_in(5), 0.8);
    CHECK_NOTHROW(watch.news());
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    CHECK_THROWS_AS(watch.news(), RunError);
  }
  CHECK(steady_seconds() - begin < 4);
  JobWatch watch(store, news_in(0), 5);
  for (int i = 0; i < 300 && watch.news().starts == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(watch.news().status == 7);
}

TEST_CASE("what strangers set in the store of a job is not believed", "[cli][slow]") {
  const TemporaryFolder folder;
  write_program(
      folder, "waits",
      "echo $MASTER_PORT $COMPOSER_JOB_SECRET > told$RANK.new; mv told$RANK.new told$RANK\n"
      "until [ -e go ]; do sleep 0.02; done\n");
  for (const bool knows_the_secret : {false, true}) {
    const Process process(folder.path(), split("-n 2 ./waits"));
    for (const char* name : {"told0", "told1"}) wait_for(folder / name);
    const auto told = split(lines_of(folder / "told0").at(0));
    CHECK(lines_of(folder / "told1") == lines_of(folder / "told0"));
    REQUIRE(told.size() == 2);
    const auto port = static_cast<uint16_t>(std::stoi(told[0]));
    if (knows_the_secret) {
      auto store = JobStore::connect({.port = port, .secret = told[1]}, 5);
      store.set("composer/over", "seven");
      const auto outcome = process.wait();
      CHECK(outcome.status == 1);
      CHECK_THAT(outcome.errors,
                 Catch::Contains("other than a whole number from 1 to 255 as composer/over"));
    } else {
      c10d::TCPStoreOptions options;
      options.port = port;
      options.waitWorkers = false;
      c10d::TCPStore store("127.0.0.1", options);
      const auto set = [&](const std::string& key, const std::string& value) {
        store.set(key, std::vector<uint8_t>(value.begin(), value.end()));
      };
      set("composer/over", "7");
      set("composer/starts", "many");
      set("composer/run_folder", (folder / "elsewhere").string());
      std::filesystem::create_directory(folder / "elsewhere");
      std::this_thread::sleep_for(std::chrono::seconds(2));
      folder.write("go", "");
      const auto outcome = process.wait();
      CHECK(outcome.status == 0);
      CHECK(outcome.errors == "");
      CHECK(std::filesystem::is_empty(folder / "elsewhere"));
      std::filesystem::remove(folder / "go");
    }
    for (const char* name : {"told0", "told1"}) std::filesystem::remove(folder / name);
  }
}

TEST_CASE("ranks are not killed while the first one's save advances", "[cli][slow]") {
  const TemporaryFolder folder;
  write_program(
      folder, "saves",
      "trap '' TERM\n"
      "echo $MASTER_PORT $COMPOSER_JOB_SECRET > told$RANK.new; mv told$RANK.new told$RANK\n"
      "until [ -e done ]; do sleep 0.02; done; exit 143\n");
  for (const bool advances : {false, true}) {
    const int grace = advances ? 3 : 1;
    const Process process(folder.path(), split("-n 2 --requeue_status 85 --grace_seconds " +
                                               std::to_string(grace) + " ./saves"));
    for (const char* name : {"told0", "told1"}) wait_for(folder / name);
    const auto told = split(lines_of(folder / "told0").at(0));
    REQUIRE(told.size() == 2);
    auto store = JobStore::connect(
        {.port = static_cast<uint16_t>(std::stoi(told[0])), .secret = told[1]}, 5);
    tell_saved(store, 1);
    std::this_thread::sleep_for(std::chrono::seconds(3));  // heard before the end is asked for
    const double asked_at = steady_seconds();
    process.signal(SIGTERM);
    for (const double end = steady_seconds() + 2 * grace; advances && steady_seconds() < end;) {
      tell_saved(store, 1);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (advances) folder.write("done", "");
    const auto outcome = process.wait();
    CHECK((advances || steady_seconds() < asked_at + 25));
    CHECK(outcome.status == 85);
    CHECK((outcome.errors.find("rank 0 did not end when it was asked to") != std::string::npos) ==
          !advances);
    for (const char* name : {"told0", "told1"}) std::filesystem::remove(folder / name);
  }
}

TEST_CASE("logs of ranks do not bring back the folder of a run that is refused", "[cli]") {
  const TemporaryFolder folder;
  RankLogs logs(0, 2);
  logs.take(1, "it is refused");
  logs.open(folder / "run", /*make=*/false);
  CHECK_FALSE(logs.opened());
  CHECK_FALSE(std::filesystem::exists(folder / "run"));
  CHECK(logs.last_lines(1).back() == "it is refused");

  std::filesystem::create_directory(folder / "run");
  logs.open(folder / "run", /*make=*/false);
  CHECK(lines_of(folder / "run/logs/rank1.log") == Words{"it is refused"});

  RankLogs elsewhere(2, 1);
  elsewhere.take(0, "here");
  elsewhere.open(folder / "other/run", /*make=*/true);
  CHECK(lines_of(folder / "other/run/logs/rank2.log") == Words{"here"});
}

TEST_CASE("what ranks without a run folder say is shown at the end", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "says", "echo said by $RANK; echo got $@\n");
  const auto outcome = run(folder.path(), split("-n 3 ./says -n 5 --dump"));
  CHECK(outcome.status == 0);
  CHECK(outcome.output == "said by 0\ngot -n 5 --dump\n");
  CHECK(outcome.errors ==
        "rank 1: said by 1\nrank 1: got -n 5 --dump\nrank 2: said by 2\nrank 2: got -n 5 --dump\n");
}

TEST_CASE("an option of the launcher that has no use is named", "[cli]") {
  const TemporaryFolder folder;
  const auto outcome = run(folder.path(), split("--max_restarts 2 data info x.beton"));
  CHECK(outcome.status == 2);
  CHECK(outcome.errors.starts_with("--max_restarts: is for ranks of train, eval or a program"));
}

TEST_CASE("a recipe's keys in front of the subcommand are told where they go", "[cli]") {
  CHECK_THROWS_WITH(check_place_of_subcommand(split("--parallelism zero1 train -f r.yaml")),
                    Catch::Contains("--parallelism: goes behind the subcommand: composer train "
                                    "--parallelism ..."));
  CHECK_THROWS_WITH(check_place_of_subcommand(split("--load_path=x eval")),
                    Catch::Contains("--load_path: goes behind the subcommand: composer eval "));
  for (const char* line : {"--gpus 4 train -f r.yaml", "--nproc_per_node=4 ./trainer"})
    CHECK_THROWS_WITH(check_place_of_subcommand(split(line)),
                      Catch::EndsWith("did you mean composer -n 4 ...?"));
  CHECK_NOTHROW(check_place_of_subcommand(split("-f r.yaml --run_name train")));
  CHECK_NOTHROW(check_place_of_subcommand({}));
}

TEST_CASE("a first rank that has no log yet tells that it lost the others", "[cli]") {
  const TemporaryFolder folder;
  const auto outcome =
      run(folder.path(),
          split("RANK=0 WORLD_SIZE=2 COMPOSER_LAUNCHER=1 TORCHELASTIC_USE_AGENT_STORE=True "
                "MASTER_PORT=" +
                std::to_string(test::free_port()) + " " PROGRAM " train --dist_timeout 1"),
          "/usr/bin/env");
  CHECK(outcome.status == 113);
  CHECK(outcome.errors.find("lost the other ranks: nobody answers") != std::string::npos);
}

TEST_CASE("ranks do not outlive a launcher that is killed", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "waits", "echo $$ > id$RANK; mv id$RANK is$RANK; exec sleep 100\n");
  const Process process(folder.path(), split("-n 2 ./waits"));
  for (const char* name : {"is0", "is1"}) wait_for(folder / name);
  process.signal(SIGKILL);
  process.wait();
  for (const char* name : {"is0", "is1"}) {
    const pid_t id = std::stoi(lines_of(folder / name).at(0));
    CHECK(ends_within(10, id));
  }
}

TEST_CASE("a plan is that of one process, whatever ranks there are to be", "[cli]") {
  const TemporaryFolder folder;
  const auto outcome = run(folder.path(), split("-n 8 train --plan"));
  CHECK(outcome.status == 0);
  CHECK(outcome.output.find("model:") == outcome.output.rfind("model:"));
  CHECK(outcome.output.find("\nranks: 8, each with ") != std::string::npos);
}

TEST_CASE("ranks are bound to equal shares of the cores, or to memory nodes", "[cli]") {
  const TemporaryFolder folder;
  write_program(folder, "show", "grep Cpus_allowed_list: /proc/self/status > bound$RANK\n");
  REQUIRE(run(folder.path(), split("-n 2 ./show")).status == 0);
  const auto all = lines_of(folder / "bound0");
  REQUIRE(run(folder.path(), split("-n 2 --bind cores ./show")).status == 0);
  if (scheduled_processors().size() > 1) {
    CHECK(lines_of(folder / "bound0") != lines_of(folder / "bound1"));
    CHECK(lines_of(folder / "bound0") != all);
  }
  REQUIRE(run(folder.path(), split("-n 2 --bind numa ./show")).status == 0);
  CHECK(lines_of(folder / "bound1").size() == 1);
}

TEST_CASE("a rank is bound beside its GPU, where the driver says that it is", "[cli]") {
  const auto cores = scheduled_processors();
  if (cores.size() < 2 || cores[1] > 30) {
    WARN("skipped: two of the first processors are needed");
    return;
  }
  const TemporaryFolder folder;
  folder.write("machine.xml", two_nodes(cores[0], cores[1]));
  write_program(folder, "show", "grep Cpus_allowed_list: /proc/self/status > bound$RANK\n");
  const auto bind = [&](const std::string& addresses) {
    return Process(folder.path(),
                   split("HWLOC_XMLFILE=machine.xml HWLOC_THISSYSTEM=1 LD_LIBRARY_PATH=" STAND_IN
                         " CUDA_VISIBLE_DEVICES=GPU-7f,GPU-12 STAND_IN_GPUS=2 STAND_IN_PCI=" +
                         addresses + " " PROGRAM " -n 2 --bind numa ./show"),
                   "/usr/bin/env")
        .wait();
  };
  const auto bound_to = [](int core) {
    return Words{"Cpus_allowed_list:\t" + std::to_string(core)};
  };
  const auto bound = bind("0000:02:00.0,0000:01:00.0");
  INFO(bound.errors);
  REQUIRE(bound.status == 0);
  CHECK(lines_of(folder / "bound0") == bound_to(cores[1]));
  CHECK(lines_of(folder / "bound1") == bound_to(cores[0]));

  const auto unknown = bind("0000:02:00.0,0000:07:00.0");
  CHECK(unknown.status == 2);
  CHECK_THAT(unknown.errors, Catch::Contains("--bind: numa: ") && Catch::Contains("0000:07:00.0"));
}

}  // namespace composer::launcher_test
