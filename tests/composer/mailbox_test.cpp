#include "base/files/mailbox.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <future>
#include <regex>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/host_name.h"
#include "composer/run/run_requests.h"
#include "tests/base/child_process.h"
#include "tests/composer/tiny_run.h"

namespace composer::mailbox_test {

using Catch::Contains;
namespace fs = std::filesystem;

namespace {

size_t requests_in(const fs::path& folder) {
  size_t count = 0;
  if (fs::exists(folder / ".requests"))
    for (const auto& entry : fs::directory_iterator(folder / ".requests"))
      count += entry.path().extension() == ".request" ? 1 : 0;
  return count;
}

void wait_for_requests(const fs::path& folder, size_t count) {
  for (const double end = steady_seconds() + 20;
       requests_in(folder) < count && steady_seconds() < end;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(requests_in(folder) == count);
}

std::future<std::optional<Answer>> ask(const fs::path& folder, const std::string& name) {
  return std::async(std::launch::async, [=] { return send_request(folder, name, {}, 20); });
}

/// Asks for `name` in the first batch.
struct AskOnce : Callback {
  AskOnce(fs::path folder, std::string name) : folder(std::move(folder)), name(std::move(name)) {}
  void batch_end(const State&, Logger&, RunControl&) override {
    if (answer.valid()) return;
    answer = ask(folder, name);
    wait_for_requests(folder, 1);
  }
  fs::path folder;
  std::string name;
  std::future<std::optional<Answer>> answer;
};

struct AskAtTheEnd : Callback {
  void fit_end(const State&, Logger&, RunControl&) override {
    saved = ask(folder, "checkpoint"), stopped = ask(folder, "stop");
    wait_for_requests(folder, 2);
  }
  fs::path folder;
  std::future<std::optional<Answer>> saved, stopped;
};

}  // namespace

TEST_CASE("a run folder tells who has it", "[run_folder]") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  CHECK_FALSE(owner_of(run));
  ChildProcess holder([&] { return std::make_unique<Mailbox>(run); });
  const auto owner = owner_of(run);
  REQUIRE(owner);
  CHECK(owner->pid == holder.id());
  CHECK(owner->host == host_name());
  CHECK(std::regex_match(owner->since, std::regex("20..-..-.. ..:..:..")));
  holder.kill();
  CHECK_FALSE(owner_of(run));
}

TEST_CASE("a run waits for the one before it, which was killed and gives back its memory",
          "[run_folder]") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  ChildProcess holder([&] {
    constexpr size_t bytes = size_t{256} << 20;
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) ::_exit(1);
    ::madvise(memory, bytes, MADV_NOHUGEPAGE);  // huge ones are given back too quickly
    std::memset(memory, 1, bytes);
    return std::make_unique<Mailbox>(run);
  });
  CHECK_THROWS_WITH(Mailbox(run), Contains("process " + std::to_string(holder.id())));
  REQUIRE(::kill(holder.id(), SIGKILL) == 0);
  REQUIRE_NOTHROW(Mailbox(run));
}

TEST_CASE("asking who has a folder does not keep a run out", "[run_folder]") {
  const TemporaryFolder folder;
  std::atomic<bool> over = false;
  std::thread asks([&] {
    while (!over) owner_of(folder / "run");
  });
  for (int i = 0; i < 200; ++i) CHECK_NOTHROW(Mailbox(folder / "run"));
  over = true;
  asks.join();
}

TEST_CASE("each request is taken once, in order, and answered", "[run_folder]") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  CHECK_THROWS_WITH(send_request(run, "a", {}, 0), Contains("/run: is no run folder"));
  fs::create_directory(run);
  CHECK_THROWS_AS(send_request(run, "a", {}, 0), UserError);
  CHECK_THROWS_WITH(send_request(run, "a", {}, 0), Contains("/run: no run is going on there"));
  {
    Mailbox mailbox(run);
    CHECK(mailbox.take().empty());
    CHECK_FALSE(send_request(run, "first", {{"batches", "10"}, {"name", "ü \"x\""}}, 0));
    auto answer = ask(run, "second");
    wait_for_requests(run, 2);
    std::ofstream(run / ".requests/0.request") << "{";
    std::ofstream(run / ".requests/1.request") << "{\"request\": 3}";
    const auto taken = mailbox.take();
    REQUIRE(taken.size() == 2);
    CHECK(taken[0].name == "first");
    CHECK(taken[0].arguments.at("batches") == "10");
    CHECK(taken[0].arguments.at("name") == "ü \"x\"");
    CHECK(taken[1].name == "second");
    CHECK(mailbox.take().empty());
    CHECK(requests_in(run) == 0);
    for (const auto& request : taken) mailbox.answer(request, {true, "answer to " + request.name});
    const auto given = answer.get();
    REQUIRE(given);
    CHECK(given->done);
    CHECK(given->text == "answer to second");
    CHECK(fs::is_empty(run / ".requests"));
  }
  CHECK_FALSE(fs::exists(run));
}

TEST_CASE("bytes that are no UTF-8 are replaced in requests and answers", "[run_folder]") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  Mailbox mailbox(run);
  auto answer = std::async(std::launch::async, [&] {
    return send_request(run, "caf\xe9", {{"name", "\xff"}}, 20);
  });
  wait_for_requests(run, 1);
  const auto taken = mailbox.take();
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].name == "caf\xef\xbf\xbd");
  CHECK(taken[0].arguments.at("name") == "\xef\xbf\xbd");
  mailbox.answer(taken[0], {true, "/caf\xe9/trace"});
  const auto given = answer.get();
  REQUIRE(given);
  CHECK(given->text == "/caf\xef\xbf\xbd/trace");
}

TEST_CASE("a request that nobody takes is taken back", "[run_folder]") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  Mailbox mailbox(run);
  CHECK_THROWS_WITH(send_request(run, "a", {}, 0.3), Contains("it is taken back"));
  CHECK(mailbox.take().empty());
  std::thread takes([&] {
    wait_for_requests(run, 1);
    mailbox.take();
  });
  CHECK_THROWS_WITH(send_request(run, "a", {}, 3), Contains("the run has taken the request"));
  takes.join();
}

TEST_CASE("requests to a run that died are not the next one's", "[run_folder]") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  ChildProcess holder([&] { return std::make_unique<Mailbox>(run); });
  send_request(run, "a", {}, 0);
  auto waits = ask(run, "b");
  wait_for_requests(run, 2);
  holder.kill();
  CHECK_THROWS_WITH(waits.get(), Contains("ended before it answered"));
  CHECK(requests_in(run) == 1);  // of the sender that did not wait
  CHECK_THROWS_AS(send_request(run, "c", {}, 0), UserError);
  Mailbox next(run);
  CHECK(next.take().empty());
}

TEST_CASE("a run whose folder was taken away leaves the next one's alone", "[run_folder]") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  auto before = std::make_unique<Mailbox>(run);
  fs::remove_all(run);
  Mailbox next(run);
  send_request(run, "a", {}, 0);
  before.reset();
  CHECK(owner_of(run));
  CHECK(next.take().size() == 1);
}

TEST_CASE("a sender is told that the request cannot be read", "[run_folder]") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  Mailbox mailbox(run);
  auto answer = std::async(std::launch::async, [&] {
    return send_request(run, "a", {{"too long", std::string(100'000, 'x')}}, 20);
  });
  wait_for_requests(run, 1);
  CHECK(mailbox.take().empty());
  const auto given = answer.get();
  REQUIRE(given);
  CHECK_FALSE(given->done);
  CHECK(given->text == "it cannot be read as a request");
}

TEST_CASE("a folder that is being taken, or cannot be looked at, takes no request",
          "[run_folder]") {
  const TemporaryFolder folder;
  const int file = ::open((folder / ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  REQUIRE(::flock(file, LOCK_EX) == 0);
  CHECK_THROWS_WITH(send_request(folder.path(), "a", {}, 0), Contains("no run is going on there"));
  ::close(file);
  fs::remove(folder / ".lock");
  fs::create_symlink(".lock", folder / ".lock");
  CHECK_THROWS_AS(owner_of(folder.path()), UserError);
  CHECK_THROWS_WITH(owner_of(folder.path()), Contains("/.lock: cannot be read: Too many levels"));
  fs::create_symlink("circle", folder / "circle");
  CHECK_THROWS_AS(send_request(folder / "circle", "a", {}, 0), UserError);
}

TEST_CASE("what is asked at a run's end is answered by its last checkpoint", "[run_folder]") {
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  auto asks = std::make_shared<AskAtTheEnd>();
  asks->folder = folder / "run";
  parts.callbacks.push_back({"asks", asks, subscriptions<AskAtTheEnd>()});
  Trainer(std::move(parts)).fit();
  for (auto* answer : {&asks->saved, &asks->stopped}) {
    const auto given = answer->get();
    REQUIRE(given);
    CHECK(given->done);
    CHECK(given->text == "saved as checkpoint ep2-ba8");
  }
}

TEST_CASE("a trace of other steps than one that waits is refused", "[run_folder]") {
  const TemporaryFolder folder;
  const auto run = folder / "run";
  Mailbox mailbox(run);
  RunRequests requests(&mailbox);
  RunControl control;
  const auto trace = [&](const std::string& steps) {
    return std::async(std::launch::async, [=] {
      return send_request(run, "trace", {{"steps", steps}}, 20);
    });
  };
  auto three = trace("3");
  wait_for_requests(run, 1);
  requests.look(control, /*now=*/true);
  auto four = trace("4"), again = trace("3");
  wait_for_requests(run, 2);
  requests.look(control, /*now=*/true);
  const auto refused = four.get();
  REQUIRE(refused);
  CHECK_FALSE(refused->done);
  CHECK_THAT(refused->text, Contains("a trace of 3 steps has been asked for"));
  CHECK(requests.take_steps_to_trace() == 3);
  requests.serve("trace");
  requests.answer("trace", {true, "files"});
  CHECK(three.get()->done);
  CHECK(again.get()->done);
}

TEST_CASE("a run saves, or saves and ends, when another process asks for it", "[run_folder]") {
  const auto wide = std::string(39, 'a') + "ü";  // a character over the 40th byte
  const auto name =
      GENERATE_COPY(as<std::string>(), "checkpoint", "stop", "dance", "two\nlines", wide);
  const bool understood = name == "checkpoint" || name == "stop";
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  parts.options.save_num_checkpoints_to_keep = -1;
  auto asks = std::make_shared<AskOnce>(folder / "run", name);
  parts.callbacks.push_back({"asks", asks, subscriptions<AskOnce>()});
  const auto summary = Trainer(std::move(parts)).fit();
  const auto answer = asks->answer.get();
  REQUIRE(answer);
  CHECK(summary.status == "completed");
  CHECK(summary.time.batch == (name == "stop" ? 1 : 8));
  CHECK(summary.metrics.contains("metrics/eval/Accuracy"));
  CHECK(fs::exists(folder / "run/checkpoints/ep0-ba1") == understood);
  CHECK(answer->done == understood);
  const std::string shown = name == "dance" ? "'dance'"
                            : name == wide  ? "'" + std::string(39, 'a') + "...'"
                                            : "'two?lines'";
  CHECK(answer->text == (understood ? "saved as checkpoint ep0-ba1"
                                    : "unknown request " + shown +
                                          "; this run understands checkpoint, stop, trace"));
  CHECK_FALSE(fs::exists(folder / "run/.requests"));
  CHECK_FALSE(owner_of(folder / "run"));
}

}  // namespace composer::mailbox_test
