#include "composer/checkpoint/checkpoint_store.h"

#include <fcntl.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/process/interrupt.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "tests/composer/terminal.h"
#include "tests/composer/tiny_run.h"
#include "tests/ranks.h"
#include "tests/remote/aws_environment.h"
#include "tests/remote/memory_store.h"
#include "tests/temporary_folder.h"

namespace composer::checkpoint_store_test {

using namespace composer::test;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// A run's folder of checkpoints, and a store.
struct Run {
  AwsEnvironment environment;
  MemoryStore memory;
  TemporaryFolder folder;

  Run() {
    environment.set_keys();
    environment.set("AWS_ENDPOINT_URL", memory.url());
  }
  ~Run() { const InterruptGuard no_signal_any_more; }

  CheckpointStore store() const { return {"s3://bucket/prefix/", "run"}; }

  fs::path make(const std::string& name, const std::string& content) const {
    fs::create_directories(folder / name);
    folder.write(name + "/model.safetensors", content);
    folder.write(name + "/manifest.json", "{\"of\": \"" + content + "\"}");
    return folder / name;
  }
  std::string content(const std::string& name) const {
    return memory.get("prefix/run/checkpoints/" + name + "/model.safetensors").value_or("none");
  }
};

/// Holds up requests until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
  }
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    opened_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

using Names = std::vector<std::string>;

std::string text_in(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Acts at the end of the third batch of eight.
class AtThirdBatch : public Callback {
 public:
  explicit AtThirdBatch(std::function<void()> action) : action_(std::move(action)) {}
  void batch_end(const State& state, Logger&, RunControl&) override {
    if (state.time.batch == 3) action_();
  }

 private:
  std::function<void()> action_;
};

/// Of a training whose checkpoints go to the store.
TrainerParts parts_of(const Run& run) {
  auto parts = tiny_parts();
  parts.options.run_dir = run.folder.path().string();
  parts.options.run_name = "run";
  parts.options.save_remote = "s3://bucket/prefix";
  parts.console = false;
  return parts;
}

}  // namespace

TEST_CASE("the order of checkpoints", "[remote]") {
  CHECK(newer_checkpoint("ep1-ba10", "ep0-ba9"));
  CHECK(newer_checkpoint("ep1-ba10", "ep0-ba10"));
  CHECK(newer_checkpoint("ep0-ba0", "best"));
  CHECK_FALSE(newer_checkpoint("ep0-ba9", "ep1-ba10"));
  CHECK_FALSE(newer_checkpoint("ep1-ba10", "ep1-ba10"));
  CHECK_FALSE(newer_checkpoint("ep1-ba10x", "ep1-ba1"));
}

TEST_CASE("checkpoints in a store count once their manifest is there", "[remote]") {
  const Run run;
  auto store = run.store();
  CHECK(store.names().empty());
  for (const char* name : {"ep0-ba9", "ep1-ba10", "ep0-ba8"})
    store.upload(run.make(name, name), name);
  CHECK(store.names() == Names{"ep1-ba10", "ep0-ba9", "ep0-ba8"});
  CHECK(store.text("ep0-ba8") == "s3://bucket/prefix/run/checkpoints/ep0-ba8");

  SECTION("what is downloaded is what was uploaded") {
    const TemporaryFolder copy;
    store.download("ep0-ba9", copy.path());
    for (const char* file : {"model.safetensors", "manifest.json"}) {
      std::ifstream written(copy / file), made(run.folder / ("ep0-ba9/" + std::string(file)));
      const std::string a{std::istreambuf_iterator<char>(written), {}};
      const std::string b{std::istreambuf_iterator<char>(made), {}};
      CHECK(a == b);
      CHECK_FALSE(a.empty());
    }
  }
  SECTION("an upload that breaks off never counts, nor what it was to replace") {
    const auto& memory = run.memory;
    const_cast<MemoryStore&>(memory).set_interference(
        [](const ServerRequest& request) -> std::optional<ServerReply> {
          if (request.method != "PUT" || !request.path.ends_with("manifest.json"))
            return std::nullopt;
          return error_reply(403, "AccessDenied", "Access Denied");
        });
    CHECK_THROWS_AS(store.upload(run.make("ep1-ba10", "other"), "ep1-ba10"), UserError);
    CHECK(run.content("ep1-ba10") == "other");
    CHECK(store.names() == Names{"ep0-ba9", "ep0-ba8"});
  }
  SECTION("old ones go, but for the best, and halves that are older") {
    const_cast<MemoryStore&>(run.memory).put("prefix/run/checkpoints/ep0-ba3/half", "");
    const_cast<MemoryStore&>(run.memory).put("prefix/run/checkpoints/ep9-ba99/half", "");
    const_cast<MemoryStore&>(run.memory).put("prefix/run/checkpoints/other/manifest.json", "");
    store.mark_best("ep0-ba8");
    store.keep_newest(1);
    CHECK(store.names() == Names{"ep1-ba10", "ep0-ba8"});
    CHECK_FALSE(run.memory.get("prefix/run/checkpoints/ep0-ba3/half"));
    CHECK(run.memory.get("prefix/run/checkpoints/ep9-ba99/half"));
    CHECK(run.memory.get("prefix/run/checkpoints/other/manifest.json"));
    store.keep_newest(-1);
    CHECK(store.names().size() == 2);
  }
  SECTION("a manifest goes first") {
    std::string first;
    const_cast<MemoryStore&>(run.memory)
        .set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
          if (request.method == "DELETE" && first.empty()) first = request.path;
          return std::nullopt;
        });
    store.keep_newest(2);
    CHECK(first == "/bucket/prefix/run/checkpoints/ep0-ba8/manifest.json");
  }
}

TEST_CASE("checkpoints go to s3:// alone", "[remote]") {
  CHECK_THROWS_WITH(CheckpointStore("https://host/x", "run"),
                    Contains("save_remote: must be s3://bucket/prefix"));
}

TEST_CASE("uploads keep nobody waiting, and what waits for them is not lost", "[remote]") {
  Run run;
  Gate gate;
  run.memory.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method == "PUT") gate.pass();
    return std::nullopt;
  });
  CheckpointUploads uploads(run.store(), run.folder.path(), 2);
  const Names names{"ep0-ba1", "ep0-ba2", "ep0-ba3", "ep0-ba4", "ep0-ba5"};
  for (const auto& name : names) {
    run.make(name, name);
    uploads.add(name, name == "ep0-ba2");
    fs::remove_all(run.folder / name);
  }
  CHECK_FALSE(uploads.finish(std::chrono::seconds(0)));
  gate.open();
  uploads.finish();
  CHECK_FALSE(uploads.problem());
  auto store = run.store();
  // The third was outdated before its turn came.
  CHECK(store.names() == Names{"ep0-ba5", "ep0-ba4", "ep0-ba2"});
  for (const auto& name : store.names()) CHECK(run.content(name) == name);
  CHECK(fs::is_empty(run.folder.path()));
}

TEST_CASE("a checkpoint that is written anew while it is uploaded is uploaded anew", "[remote]") {
  Run run;
  Gate gate;
  run.memory.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method == "PUT") gate.pass();
    return std::nullopt;
  });
  CheckpointUploads uploads(run.store(), run.folder.path(), -1);
  for (const auto& content : {"first", "second"}) {
    run.make("ep0-ba1", content);
    uploads.add("ep0-ba1", false);
    fs::remove_all(run.folder / "ep0-ba1");
  }
  gate.open();
  uploads.finish();
  CHECK_FALSE(uploads.problem());
  CHECK(run.store().names() == Names{"ep0-ba1"});
  CHECK(run.content("ep0-ba1") == "second");
  CHECK(fs::is_empty(run.folder.path()));
}

TEST_CASE("the best checkpoint that a kill kept from the store is marked there", "[remote]") {
  Run run;
  const auto newest = [&](bool autoresume) {
    auto parts = parts_of(run);
    parts.options.autoresume = autoresume;
    parts.options.save_best = "metrics/eval/CrossEntropy";
    Trainer(std::move(parts)).fit();
    return run.store().names().front();
  };
  const auto name = newest(false);
  const std::string checkpoints = "prefix/run/checkpoints/";
  for (const char* best : {"ep2-ba8", "ep1-ba4"}) {
    mark_best_checkpoint(run.folder / "run/checkpoints", best);
    run.memory.put(checkpoints + "best", "ep1-ba4");
    run.memory.remove(checkpoints + name + "/manifest.json");
    CHECK(newest(true) == name);
    CHECK(run.memory.get(checkpoints + "best") == best);
  }
}

TEST_CASE("the best checkpoint is one that the store has", "[remote]") {
  Run run;
  const std::string best = "prefix/run/checkpoints/best";
  const auto add = [&](CheckpointUploads& uploads, const std::string& name) {
    run.make(name, name);
    uploads.add(name, false);
  };
  SECTION("where later ones would take its place before its turn") {
    Gate gate;
    run.memory.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
      if (request.method == "PUT") gate.pass();
      return std::nullopt;
    });
    CheckpointUploads uploads(run.store(), run.folder.path(), 1);
    for (const char* name : {"ep0-ba1", "ep0-ba2", "ep0-ba3", "ep0-ba4"}) {
      add(uploads, name);
      if (name == std::string("ep0-ba2")) uploads.mark_best(name);
    }
    gate.open();
    uploads.finish();
    CHECK_FALSE(uploads.problem());
    CHECK(run.store().names() == Names{"ep0-ba4", "ep0-ba2"});
    CHECK(run.memory.get(best) == "ep0-ba2");
  }
  SECTION("where the next best could not be uploaded") {
    run.memory.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
      if (request.method != "PUT" || request.path.find("ep0-ba2") == std::string::npos)
        return std::nullopt;
      return error_reply(403, "AccessDenied", "Access Denied");
    });
    CheckpointUploads uploads(run.store(), run.folder.path(), 1);
    for (const char* name : {"ep0-ba1", "ep0-ba2"}) {
      add(uploads, name);
      uploads.finish();
      uploads.mark_best(name);
    }
    add(uploads, "ep0-ba3");
    uploads.finish();
    CHECK_THAT(uploads.problem().value_or(""), Contains("ep0-ba2 is not in s3://bucket"));
    CHECK(run.store().names() == Names{"ep0-ba3", "ep0-ba1"});
    CHECK(run.memory.get(best) == "ep0-ba1");
  }
}

TEST_CASE("what could not be uploaded is told, and later ones are", "[remote]") {
  Run run;
  std::atomic<bool> refused = true;
  run.memory.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method != "PUT" || !refused) return std::nullopt;
    return error_reply(403, "AccessDenied", "Access Denied");
  });
  CheckpointUploads uploads(run.store(), run.folder.path(), -1);
  run.make("ep0-ba1", "1");
  uploads.add("ep0-ba1", false);
  uploads.finish();
  CHECK_THAT(uploads.problem().value_or(""),
             Contains("ep0-ba1 is not in s3://bucket/prefix/run/checkpoints/") &&
                 Contains("403 AccessDenied"));
  CHECK_FALSE(uploads.problem());
  refused = false;
  uploads.add("ep0-ba1", false, /*unless_there=*/true);
  run.make("ep0-ba2", "2");
  uploads.add("ep0-ba2", false);
  uploads.mark_best("ep0-ba2");
  uploads.finish();
  CHECK_FALSE(uploads.problem());
  CHECK(run.store().names() == Names{"ep0-ba2", "ep0-ba1"});
  CHECK(run.memory.get("prefix/run/checkpoints/best") == "ep0-ba2");
  const size_t before = run.memory.server().requests().size();
  uploads.add("ep0-ba1", false, /*unless_there=*/true);
  uploads.finish();
  for (size_t i = before; i < run.memory.server().requests().size(); ++i)
    CHECK(run.memory.server().requests()[i].method == "GET");
}

TEST_CASE("a copy that fails after a signal leaves the run interrupted", "[remote]") {
  Run run;
  run.memory.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method != "PUT") return std::nullopt;
    return error_reply(403, "AccessDenied", "Access Denied");
  });
  Trainer trainer(parts_of(run));
  trainer.add<AtThirdBatch>("signal", [] { std::raise(SIGTERM); });
  const auto summary = trainer.fit();
  CHECK(summary.status == "interrupted");
  CHECK(summary.signal == SIGTERM);
  CHECK(fs::exists(run.folder / "run/checkpoints/ep0-ba3/manifest.json"));
  CHECK(run.store().names().empty());
}

TEST_CASE("a copy that the store is long silent about is waited for after a signal",
          "[remote][slow]") {
  Run run;
  run.memory.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method == "PUT" && request.path.ends_with("manifest.json"))
      std::this_thread::sleep_for(std::chrono::seconds(7));
    return std::nullopt;
  });
  Trainer trainer(parts_of(run));
  trainer.add<AtThirdBatch>("signal", [] { std::raise(SIGTERM); });
  CHECK(trainer.fit().status == "interrupted");
  CHECK(run.store().names() == Names{"ep0-ba3"});
}

TEST_CASE("a failed run says why before it waits for the store, and what did not get there",
          "[remote]") {
  const bool asked_to_end = GENERATE(false, true);
  Gate gate;
  Run run;
  run.memory.set_interference([&](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method == "PUT") gate.pass();
    return std::nullopt;
  });
  auto parts = parts_of(run);
  parts.options.save_async = false;
  parts.options.save_interval = {1, TimeUnit::batch};
  Trainer trainer(std::move(parts));
  trainer.add<AtThirdBatch>("failing", [] { throw RunError("broken on purpose"); });
  const auto said = run.folder / "said", summary = run.folder / "run/summary.json";
  bool told = false;
  {
    const StandardError error(::open(said.c_str(), O_CREAT | O_WRONLY, 0600));
    const std::jthread user([&] {
      for (int i = 0; i < 2000 && !told; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        told = text_in(said).find("broken on purpose") != std::string::npos &&
               text_in(summary).find("failed") != std::string::npos;
      }
      if (told && asked_to_end)
        std::raise(SIGTERM);
      else
        gate.open();
    });
    CHECK_THROWS_WITH(trainer.fit(), Contains("broken on purpose"));
  }
  gate.open();
  CHECK(told);
  if (asked_to_end)
    CHECK_THAT(text_in(said), Contains("the checkpoint ep0-ba1 is not in s3://bucket/prefix/run") &&
                                  Contains("the checkpoint ep0-ba2 is not in s3://bucket"));
  else
    CHECK(run.store().names() == Names{"ep0-ba2", "ep0-ba1"});
}

TEST_CASE("a new run leaves alone what a store has of its name", "[remote]") {
  Run run;
  Trainer(parts_of(run)).fit();
  CHECK(run.store().names() == Names{"ep2-ba8", "ep1-ba4"});
  fs::remove_all(run.folder / "run");
  const auto keys = run.memory.keys();
  const std::string there = "run_name: s3://bucket/prefix/run/checkpoints/ has checkpoints already";

  CHECK_THROWS_WITH(
      Trainer(parts_of(run)).fit(),
      there + "; give --autoresume true to go on with the run, or another --run_name");
  std::mutex mutex;
  Names problems;
  in_ranks(2, [&](const Ranks& ranks) {
    auto parts = parts_of(run);
    parts.ranks = ranks;
    try {
      Trainer(std::move(parts)).fit();
    } catch (const UserError& error) {
      const std::lock_guard lock(mutex);
      problems.emplace_back(error.what());
    }
  });
  CHECK(problems.size() == 2);
  CHECK(run.memory.keys() == keys);
  CHECK_FALSE(fs::exists(run.folder / "run"));

  auto parts = parts_of(run);
  parts.options.run_name = "other";
  CHECK(Trainer(std::move(parts)).fit().status == "completed");
  const auto go_on = [&] {
    auto same = parts_of(run);
    same.options.autoresume = true;
    same.options.max_duration = {3, TimeUnit::epoch};
    return Trainer(std::move(same)).fit();
  };
  CHECK(go_on().time.epoch == 3);
  CHECK(run.store().names() == Names{"ep3-ba12", "ep2-ba8", "ep1-ba4"});

  fs::remove_all(run.folder / "run");
  for (const auto& key : run.memory.keys())
    if (key.ends_with(".safetensors")) run.memory.put(key, "damaged");
  CHECK_THROWS_WITH(go_on(), there + ", none of which can be used; give another --run_name");
}

TEST_CASE("a store that may be written to alone is no reason not to train", "[remote]") {
  Run run;
  run.memory.set_interference([](const ServerRequest& request) -> std::optional<ServerReply> {
    if (request.method != "GET") return std::nullopt;
    return error_reply(403, "AccessDenied", "Access Denied");
  });
  CHECK(Trainer(parts_of(run)).fit().status == "completed");
  CHECK(run.memory.get("prefix/run/checkpoints/ep2-ba8/manifest.json"));
}

}  // namespace composer::checkpoint_store_test
