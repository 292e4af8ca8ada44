#include "nn/distributed/job_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "composer/checkpoint/safetensors.h"
#include "tests/temporary_folder.h"

namespace composer::job_store_test {

namespace {

/// Whether somebody listens there; the address is one of this machine.
bool answers(const char* address, uint16_t port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &there.sin_addr);
  const bool connected =
      ::connect(socket, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0;
  ::close(socket);
  return connected;
}

/// For its lifetime.
class Variables {
 public:
  explicit Variables(std::map<std::string, std::string> all) : all_(std::move(all)) {
    for (const auto& [name, value] : all_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const auto& [name, value] : all_) ::unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  const std::map<std::string, std::string> all_;
};

}  // namespace

TEST_CASE("the store of a job on one machine is reached from there alone", "[ranks]") {
  const auto here = JobStore::host({}, 5);
  CHECK(answers("127.0.0.1", here.port()));
  CHECK_FALSE(answers("127.0.0.2", here.port()));
  const auto everywhere = JobStore::host({.one_machine = false}, 5);
  CHECK(answers("127.0.0.2", everywhere.port()));
  CHECK_THROWS_WITH(
      JobStore::host({.port = here.port()}, 5),
      Catch::StartsWith("port " + std::to_string(here.port()) + " cannot be listened on") &&
          Catch::Contains("in use"));
}

TEST_CASE("ranks of one machine meet there, whatever its name is", "[ranks]") {
  RankEnvironment first;
  first.size = first.local_size = 2;
  first.address = "a-name-that-nobody-knows";
  first.secret = "job";
  first.port = JobStore::host({}, 5).port();  // which is free again
  auto second = first;
  second.rank = second.local_rank = 1;
  auto host = JobStore::of(first, 5);
  auto other = JobStore::of(second, 5);
  for (int i = 0; i < 200; ++i) {
    host.set("key", std::to_string(i));
    CHECK(other.get("key") == std::to_string(i));
  }
}

TEST_CASE("who does not know the secret of a job sees and sets nothing of it", "[ranks]") {
  auto host = JobStore::host({.secret = "known"}, 5);
  auto rank = JobStore::connect({.port = host.port(), .secret = "known"}, 5);
  auto stranger = JobStore::connect({.port = host.port()}, 5);
  host.set("key", "of the job");
  stranger.set("key", "of a stranger");
  CHECK(rank.get("key") == "of the job");
  CHECK(stranger.get("key") == "of a stranger");
  stranger.set("count", "many");
  CHECK(rank.add("count", 2) == 2);
  CHECK(host.get_number("count", 0, 2) == 2);

  c10d::TCPStoreOptions options;
  options.port = host.port();
  options.waitWorkers = false;
  c10d::TCPStore bare("127.0.0.1", options);
  for (const auto& name : bare.listKeys()) CHECK(name.find("known") == std::string::npos);
}

TEST_CASE("a value of the store that the job cannot have set is refused", "[ranks]") {
  auto store = JobStore::host({}, 5);
  CHECK_FALSE(store.get_number("number", 0, 9));
  store.set("number", "9");
  CHECK(store.get_number("number", 0, 9) == 9);
  for (const char* value : {"", "10", "-1", "1.5", "9 ", "nine", "99999999999999999999"}) {
    INFO(value);
    store.set("number", value);
    CHECK_THROWS_AS(store.get_number("number", 0, 9), ForeignValue);
  }
  CHECK_THROWS_WITH(store.get_number("number", 0, 9),
                    Catch::Contains("a whole number from 0 to 9 as number"));

  CHECK_FALSE(told_run_folder(store));
  store.set("composer/run_folder", "/runs/night");
  CHECK(told_run_folder(store) == std::filesystem::path("/runs/night"));
  for (const auto& value : {std::string(), std::string("runs/night"), std::string("/run\0", 5),
                            std::string(5000, '/')}) {
    store.set("composer/run_folder", value);
    CHECK_THROWS_AS(told_run_folder(store), ForeignValue);
  }
}

TEST_CASE("the launcher hears of the first rank's save that it advances", "[ranks][slow]") {
  auto store = JobStore::host({.secret = "ours"}, 5);
  CHECK(told_saved(store) == 0);
  const TemporaryFolder folder;
  for (const char* rank : {"1", "0"}) {
    const Variables variables({{"RANK", rank},
                               {"WORLD_SIZE", "2"},
                               {"LOCAL_WORLD_SIZE", "2"},
                               {"MASTER_ADDR", "127.0.0.1"},
                               {"MASTER_PORT", std::to_string(store.port())},
                               {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                               {"COMPOSER_LAUNCHER", "1"},
                               {job_secret_variable, "ours"}});
    const SaveReports reports(read_rank_environment());
    write_safetensors(folder / "weights", {{"weight", at::ones({1000})}});
    const bool first = *rank == '0';
    for (int i = 0; i < (first ? 3000 : 150) && told_saved(store) < 4000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    CHECK((told_saved(store) >= 4000) == first);
  }
}

}  // namespace composer::job_store_test
