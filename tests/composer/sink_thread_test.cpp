#include "composer/logging/sink_thread.h"

#include <catch2/catch.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "composer/logging/logger.h"
#include "tests/composer/terminal.h"

namespace composer::sink_thread_test {

using Catch::Contains;

namespace {

std::shared_ptr<const Record> record_of(int64_t batch) {
  Record record{"batch", {}, {{"loss/train", static_cast<double>(batch)}}};
  record.time.batch = batch;
  return std::make_shared<const Record>(std::move(record));
}

/// Writes nothing before it is let.
class Blocked : public LogSink {
 public:
  std::string name() const override { return "blocked"; }
  void write(const Record& record) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
    batches.push_back(record.time.batch);
  }
  void run_end(const RunEnd& end) override { status = end.status; }
  void let(bool open = true) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

  std::vector<int64_t> batches;
  std::string status;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

class Failing : public LogSink {
 public:
  explicit Failing(int opens_that_fail) : left_(opens_that_fail) {}
  std::string name() const override { return "failing"; }
  void open(const RunInfo&) override {
    if (left_-- > 0) throw RunError("no room to open");
  }
  void write(const Record& record) override {
    if (record.time.batch == 2) throw RunError("no room to write");
    batches.push_back(record.time.batch);
  }
  std::vector<int64_t> batches;

 private:
  int left_;
};

int64_t mentions(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

}  // namespace

TEST_CASE("a sink that blocks holds nobody up, and gets all in order once it can", "[logging]") {
  const auto sink = std::make_shared<Blocked>();
  const double begin = steady_seconds();
  const auto log = standard_error_of([&] {
    Logger logger({.flush = 0.05, .end = 30});
    logger.add(sink);
    logger.open({});
    for (int64_t batch = 1; batch <= 100; ++batch) {
      Timestamp time;
      time.batch = batch;
      logger.log("loss/train", 1.0);
      logger.commit("batch", time);
      logger.write();
      logger.flush();
    }
    CHECK(steady_seconds() - begin < 5);  // one flush has waited, not a hundred
    sink->let();
    logger.close({"completed", ""});
  });
  REQUIRE(sink->batches.size() == 100);
  for (int64_t i = 0; i < 100; ++i) CHECK(sink->batches[static_cast<size_t>(i)] == i + 1);
  CHECK(sink->status == "completed");
  CHECK(mentions(log, "warning: blocked: does not keep up") == 1);
  CHECK_THAT(log, !Contains("missing"));
}

TEST_CASE("a sink that has caught up is waited for again", "[logging]") {
  const auto sink = std::make_shared<Blocked>();
  const auto log = standard_error_of([&] {
    SinkThread thread(sink);
    thread.put(record_of(1));
    thread.wait(steady_seconds() + 0.05);
    sink->let();
    thread.wait(steady_seconds() + 10, /*patient=*/true);
    sink->let(false);
    thread.put(record_of(2));
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      sink->let();
    });
    thread.wait(steady_seconds() + 10);
    CHECK(sink->batches == std::vector<int64_t>{1, 2});
    later.join();
  });
  CHECK(mentions(log, "does not keep up") == 1);
}

TEST_CASE("a sink that blocks for ever is left alone at the end, and what it lacks counted",
          "[logging]") {
  const auto sink = std::make_shared<Blocked>();
  const auto log = standard_error_of([&] {
    SinkThread thread(sink, {.bytes = 1000});
    for (int64_t batch = 1; batch <= 100; ++batch) thread.put(record_of(batch));
    thread.wait(steady_seconds() + 0.05);
  });
  CHECK_THAT(log, Contains("blocked: does not keep up"));
  CHECK_THAT(log, Contains("records are missing"));
  sink->let();  // it still uses what is its own
}

TEST_CASE("what a sink fails on is reported once; the rest follows", "[logging]") {
  const auto sink = std::make_shared<Failing>(0);
  const auto log = standard_error_of([&] {
    SinkThread thread(sink);
    thread.put(RunInfo{});
    for (const int64_t batch : {1, 2, 3, 2, 4}) thread.put(record_of(batch));
    thread.wait(steady_seconds() + 10);
  });
  CHECK(sink->batches == std::vector<int64_t>{1, 3, 4});
  CHECK(mentions(log, "warning: failing: no room to write; training goes on") == 1);
}

TEST_CASE("a sink that cannot be opened is tried again, and loses nothing", "[logging]") {
  const auto sink = std::make_shared<Failing>(3);
  const auto log = standard_error_of([&] {
    SinkThread thread(sink, {.reopen_seconds = 0.01});
    thread.put(RunInfo{});
    for (const int64_t batch : {1, 3, 4}) thread.put(record_of(batch));
    thread.wait(steady_seconds() + 10);
  });
  CHECK(sink->batches == std::vector<int64_t>{1, 3, 4});
  CHECK(mentions(log, "failing: no room to open") == 1);
}

TEST_CASE("a sink that is never opened is given up at the end, with its records counted",
          "[logging]") {
  const auto sink = std::make_shared<Failing>(1 << 20);
  const auto log = standard_error_of([&] {
    SinkThread thread(sink, {.reopen_seconds = 60});
    thread.put(RunInfo{});
    for (const int64_t batch : {1, 3, 4}) thread.put(record_of(batch));
    thread.put(RunEnd{"completed", ""});
    thread.wait(steady_seconds() + 10);
  });
  CHECK(sink->batches.empty());
  CHECK_THAT(log, Contains("failing: no room to open") && Contains("3 records are missing"));
}

TEST_CASE("what the user got wrong about a logger ends the run before it begins", "[logging]") {
  class Wrong : public LogSink {
   public:
    void open(const RunInfo&) override { throw UserError("loggers.wrong: no such place"); }
    void write(const Record&) override {}
  };
  Logger logger;
  logger.add(std::make_shared<Wrong>());
  CHECK_THROWS_AS(logger.open({}), UserError);
  logger.close({"failed", ""});
}

TEST_CASE("a sink is told of every phase, and not of every batch", "[logging]") {
  class Told : public LogSink {
   public:
    void write(const Record&) override {}
    void progress(const Progress& progress) override { phases.push_back(progress.phase); }
    std::vector<Progress::Phase> phases;
  };
  using Phase = Progress::Phase;
  const auto sink = std::make_shared<Told>();
  Logger logger;
  logger.add(sink);
  logger.open({});
  logger.progress({Phase::waiting, {}});
  for (int i = 0; i < 1000; ++i) logger.progress({Phase::training, {}});
  logger.progress({Phase::evaluating, {}});
  logger.progress({Phase::evaluated, {}});
  logger.close({"completed", ""});
  REQUIRE(sink->phases.size() >= 4);
  CHECK(sink->phases.size() < 500);
  CHECK(sink->phases.front() == Phase::waiting);
  CHECK(sink->phases.back() == Phase::evaluated);
}

TEST_CASE("a refusal that nobody waited for is told of at the end", "[logging]") {
  struct Refusing : LogSink {
    std::string name() const override { return "refusing"; }
    void open(const RunInfo&) override { throw UserError("no such place"); }
    void write(const Record&) override {}
  };
  const auto log = standard_error_of([] {
    SinkThread thread(std::make_shared<Refusing>());
    thread.put(RunInfo());
  });
  CHECK(mentions(log, "refusing: no such place") == 1);
}

}  // namespace composer::sink_thread_test
