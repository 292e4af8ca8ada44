#include "composer/run/trainer.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <thread>
#include <type_traits>

#include "base/error.h"
#include "base/files/mailbox.h"
#include "base/process/interrupt.h"
#include "nn/optimization/schedulers.h"
#include "tiny_run.h"

namespace composer::trainer_test {

namespace fs = std::filesystem;

namespace {

/// Writes down every event it sees.
class Recorder : public Algorithm {
 public:
  Recorder(std::string name, std::vector<std::string>& log) : name_(std::move(name)), log_(log) {}
#define X(event, kind) \
  void event(State&) override { log_.push_back(name_ + #event); }
  COMPOSER_EVENTS(X)
#undef X

 private:
  std::string name_;
  std::vector<std::string>& log_;
};

class CallbackRecorder : public Callback {
 public:
  explicit CallbackRecorder(std::vector<std::string>& log) : log_(log) {}
  void init(const State&, Logger&, RunControl&) override { log_.push_back("callback init"); }
  void batch_end(const State&, Logger&, RunControl&) override {
    log_.push_back("callback batch_end");
  }

 private:
  std::vector<std::string>& log_;
};

/// Does something once a given batch has ended.
/// Those of a run in the folder, which the same parts go on with.
TrainerParts parts_to_resume(const TemporaryFolder& folder, const std::string& name = "run") {
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = name;
  parts.options.autoresume = true;
  return parts;
}

class AtBatch : public Callback {
 public:
  AtBatch(int64_t batch, std::function<void(RunControl&)> action)
      : batch_(batch), action_(std::move(action)) {}
  void batch_end(const State& state, Logger&, RunControl& control) override {
    if (state.time.batch == batch_) action_(control);
  }

 private:
  int64_t batch_;
  std::function<void(RunControl&)> action_;
};

class ScaleLoss : public Algorithm {
 public:
  explicit ScaleLoss(double factor) : factor_(factor) {}
  void before_backward(State& state) override { state.loss = state.loss * factor_; }

 private:
  double factor_;
};

std::vector<nlohmann::json> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

nlohmann::json json_of(const fs::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t count(const std::vector<std::string>& log, const std::string& event) {
  return std::count(log.begin(), log.end(), event);
}

}  // namespace

TEST_CASE("one batch of two microbatches, then evaluation: the events in order", "[trainer]") {
  std::vector<std::string> log;
  auto parts = tiny_parts();
  parts.options.max_duration = {1, TimeUnit::epoch};
  parts.options.grad_accum = 2;
  parts.train_loader = std::make_shared<TinyLoader>(8, 8);
  parts.eval_loader = std::make_shared<TinyLoader>(8, 8);
  Trainer trainer(std::move(parts));
  trainer.add<Recorder>("recorder", "", log);
  trainer.fit();
  CHECK(log == std::vector<std::string>{"init",
                                        "fit_start",
                                        "epoch_start",
                                        "augment",
                                        "after_dataloader",
                                        "batch_start",
                                        "before_train_batch",
                                        "before_forward",
                                        "after_forward",
                                        "before_loss",
                                        "after_loss",
                                        "before_backward",
                                        "after_backward",
                                        "before_forward",
                                        "after_forward",
                                        "before_loss",
                                        "after_loss",
                                        "before_backward",
                                        "after_backward",
                                        "after_train_batch",
                                        "batch_end",
                                        "batch_checkpoint",
                                        "epoch_end",
                                        "eval_start",
                                        "eval_batch_start",
                                        "eval_before_forward",
                                        "eval_after_forward",
                                        "eval_batch_end",
                                        "eval_end",
                                        "epoch_checkpoint",
                                        "fit_end"});
}

TEST_CASE("augment has the batch as bytes, changed before it is normalised and gone afterwards",
          "[trainer]") {
  class Blank : public Algorithm {
   public:
    explicit Blank(std::vector<std::string>& log) : log_(log) {}
    void augment(State& state) override {
      const auto& [images, target, indices, share] = state.raw_batch;
      CHECK(images.scalar_type() == at::kByte);
      CHECK(images.sizes() == at::IntArrayRef{8, 8, 8, 3});
      CHECK(target.classes.numel() == 8);
      CHECK(state.time.batch == static_cast<int64_t>(log_.size()) / 2);
      state.raw_batch.images = at::full_like(images, 192);
      log_.push_back("algorithm");
    }
    void after_dataloader(State& state) override {
      CHECK_FALSE(state.raw_batch.images.defined());
      CHECK_FALSE(state.raw_batch.target.classes.defined());
      CHECK(at::equal(state.batch.input, at::ones({8, 3, 8, 8})));
      CHECK(state.batch.target.classes.numel() == 8);
    }

   private:
    std::vector<std::string>& log_;
  };
  class Watch : public Callback {
   public:
    explicit Watch(std::vector<std::string>& log) : log_(log) {}
    void augment(const State& state, Logger&, RunControl&) override {
      CHECK(state.raw_batch.images.eq(192).all().item<bool>());
      log_.push_back("callback");
    }

   private:
    std::vector<std::string>& log_;
  };
  std::vector<std::string> log;
  auto parts = tiny_parts();
  parts.options.max_duration = {2, TimeUnit::batch};
  Trainer trainer(std::move(parts));
  trainer.add<Watch>("watch", log);
  trainer.add<Blank>("blank", log);
  trainer.fit();
  CHECK(log == std::vector<std::string>{"algorithm", "callback", "algorithm", "callback"});
}

TEST_CASE("an algorithm asks for its place event by event, as it runs", "[trainer]") {
  class Placed : public Recorder {
   public:
    Placed(Order opening, Order closing, std::vector<std::string>& log)
        : Recorder("", log), opening_(opening), closing_(closing) {}
    Order order(Event event) const override { return closing(event) ? closing_ : opening_; }

   private:
    Order opening_, closing_;
  };
  using Order = Algorithm::Order;
  using Names = std::vector<std::string>;
  std::vector<std::string> log;
  Trainer trainer(tiny_parts());
  trainer.add<Placed>("ends", Order::last, Order::last, log);
  trainer.add<Recorder>("a", "", log);
  trainer.add<Placed>("around", Order::first, Order::last, log);
  trainer.add<Placed>("early", Order::early, Order::early, log);
  trainer.add<Recorder>("b", "", log);
  trainer.add<Placed>("inside", Order::last, Order::first, log);
  CHECK(trainer.engine().order(Event::before_loss) ==
        Names{"around", "early", "a", "b", "ends", "inside"});
  CHECK(trainer.engine().order(Event::after_loss) ==
        Names{"inside", "early", "b", "a", "around", "ends"});
}

TEST_CASE("an algorithm may end a run early, whose learning rates go on as planned", "[trainer]") {
  class Shorten : public Algorithm {
   public:
    void fit_start(State& state) override { state.run_length.max_duration = {3, TimeUnit::batch}; }
  };
  class Rates : public Callback {
   public:
    explicit Rates(std::vector<double>& rates) : rates_(rates) {}
    void after_train_batch(const State& state, Logger&, RunControl&) override {
      rates_.push_back(state.optimizer->lr());
    }

   private:
    std::vector<double>& rates_;
  };
  const auto rates_of = [](bool shorten) {
    std::vector<double> rates;
    auto parts = tiny_parts();
    parts.schedulers = {std::make_shared<ScheduledBy<CosineDecay>>(CosineDecay())};
    Trainer trainer(std::move(parts));
    if (shorten) trainer.add<Shorten>("shorten");
    trainer.add<Rates>("rates", rates);
    trainer.fit();
    return rates;
  };
  const auto all = rates_of(false), early = rates_of(true);
  REQUIRE(all.size() == 8);
  CHECK(early == std::vector<double>(all.begin(), all.begin() + 3));
}

TEST_CASE("who does not listen to an event is not among its listeners", "[trainer]") {
  class Deaf : public Recorder {
   public:
    using Recorder::Recorder;
    bool listens(Event event) const override { return event != Event::batch_end; }
  };
  std::vector<std::string> log;
  auto parts = tiny_parts();
  parts.options.max_duration = {1, TimeUnit::batch};
  Trainer trainer(std::move(parts));
  trainer.add<Deaf>("deaf", "", log);
  trainer.fit();
  CHECK(count(log, "batch_start") == 1);
  CHECK(count(log, "batch_end") == 0);
  CHECK(trainer.engine().order(Event::batch_start) == std::vector<std::string>{"deaf"});
  CHECK(trainer.engine().order(Event::batch_end).empty());
}

TEST_CASE("events fire as often as there are epochs, batches, microbatches and evaluations",
          "[trainer]") {
  std::vector<std::string> log;
  auto parts = tiny_parts();
  parts.options.max_duration = {3, TimeUnit::epoch};
  parts.options.grad_accum = 3;  // 8 samples: 3 + 3 + 2
  parts.options.eval_interval = {2, TimeUnit::epoch};
  Trainer trainer(std::move(parts));
  trainer.add<Recorder>("recorder", "", log);
  trainer.fit();
  CHECK(count(log, "init") == 1);
  for (const char* event : {"epoch_start", "epoch_end", "epoch_checkpoint"})
    CHECK(count(log, event) == 3);
  for (const char* event : {"augment", "after_dataloader", "batch_start", "before_train_batch",
                            "after_train_batch", "batch_end", "batch_checkpoint"})
    CHECK(count(log, event) == 12);
  for (const char* event : {"before_forward", "after_forward", "before_loss", "after_loss",
                            "before_backward", "after_backward"})
    CHECK(count(log, event) == 36);
  // After epoch 2, and at the end because epoch 3 was not evaluated.
  for (const char* event : {"eval_start", "eval_end"}) CHECK(count(log, event) == 2);
  for (const char* event :
       {"eval_batch_start", "eval_before_forward", "eval_after_forward", "eval_batch_end"})
    CHECK(count(log, event) == 4);
}

TEST_CASE("evaluation after an epoch's last batch sees what epoch_end did", "[trainer]") {
  for (const Time interval : {Time{2, TimeUnit::batch}, Time{16, TimeUnit::sample}}) {
    std::vector<std::string> log;
    auto parts = tiny_parts();
    parts.options.eval_interval = interval;
    Trainer trainer(std::move(parts));
    trainer.add<Recorder>("recorder", "", log);
    trainer.fit();
    std::vector<std::string> found;
    for (const auto& event : log)
      if (event == "batch_end" || event == "epoch_end" || event == "eval_start" ||
          event == "epoch_checkpoint")
        found.push_back(event);
    const std::vector<std::string> epoch = {"batch_end",  "batch_end",       "eval_start",
                                            "batch_end",  "batch_end",       "epoch_end",
                                            "eval_start", "epoch_checkpoint"};
    auto expected = epoch;
    expected.insert(expected.end(), epoch.begin(), epoch.end());
    CHECK(found == expected);
  }
}

TEST_CASE(
    "algorithms run in the listed order, reversed on closing events; callbacks after, but first at "
    "init",
    "[trainer]") {
  std::vector<std::string> log;
  auto parts = tiny_parts();
  parts.options.max_duration = {1, TimeUnit::batch};
  parts.eval_loader = nullptr;
  Trainer trainer(std::move(parts));
  trainer.add<Recorder>("a", "a ", log);
  trainer.add<Recorder>("b", "b ", log);
  trainer.add<Recorder>("c", "c ", log);
  trainer.add<CallbackRecorder>("callback", log);
  trainer.fit();
  const auto order = [&](const std::string& event) {
    std::vector<std::string> found;
    for (const auto& entry : log)
      if (entry.ends_with(" " + event)) found.push_back(entry.substr(0, entry.find(' ')));
    return found;
  };
  using Names = std::vector<std::string>;
  CHECK(order("init") == Names{"callback", "a", "b", "c"});
  CHECK(order("before_forward") == Names{"a", "b", "c"});
  CHECK(order("after_dataloader") == Names{"a", "b", "c"});
  CHECK(order("after_forward") == Names{"c", "b", "a"});
  CHECK(order("batch_end") == Names{"c", "b", "a", "callback"});
  CHECK(order("batch_checkpoint") == Names{"a", "b", "c"});
  CHECK(order("fit_end") == Names{"c", "b", "a"});
}

TEST_CASE("training ends at max_duration in any unit", "[trainer]") {
  const auto train_for = [](Time duration) {
    auto parts = tiny_parts();
    parts.options.max_duration = duration;
    return Trainer(std::move(parts)).fit().time;
  };
  CHECK(train_for({2, TimeUnit::epoch}).batch == 8);
  CHECK(train_for({2, TimeUnit::epoch}).epoch == 2);
  CHECK(train_for({6, TimeUnit::batch}).batch == 6);
  CHECK(train_for({6, TimeUnit::batch}).epoch == 1);
  CHECK(train_for({33, TimeUnit::sample}).batch == 5);
  CHECK(train_for({0.01, TimeUnit::second}).batch >= 1);
}

TEST_CASE("microbatches give the whole batch's update", "[trainer]") {
  const auto train_with = [](int64_t grad_accum) {
    auto parts = tiny_parts();
    parts.options.grad_accum = grad_accum;
    Trainer trainer(std::move(parts));
    trainer.fit();
    return weights_of(trainer);
  };
  const auto whole = train_with(1);
  for (const int64_t parts : {2, 3, 8}) CHECK(at::allclose(whole, train_with(parts), 1e-4, 1e-5));
}

TEST_CASE("gradients are clipped to the global norm", "[trainer]") {
  auto parts = tiny_parts();
  parts.options.max_duration = {1, TimeUnit::batch};
  parts.options.grad_clip_norm = 0.01;
  Trainer trainer(std::move(parts));
  trainer.add<ScaleLoss>("scale", 1000.0);
  trainer.fit();
  double squares = 0;
  for (const auto& parameter : trainer.state().model->parameters())
    squares += parameter.grad().pow(2).sum().item<double>();
  CHECK(std::sqrt(squares) == Approx(0.01).epsilon(1e-3));
}

TEST_CASE("training learns, and evaluates under the same precision", "[trainer]") {
  const std::string precision =
      GENERATE(std::string("fp32"), std::string("amp_bf16"), std::string("amp_fp16"));
  auto parts = tiny_parts();
  parts.options.max_duration = {20, TimeUnit::epoch};
  parts.options.precision = precision;
  Trainer trainer(std::move(parts));
  const auto summary = trainer.fit();
  INFO(precision);
  CHECK(summary.metrics.at("metrics/eval/Accuracy") > 0.9);
  CHECK(summary.metrics.at("loss/train") < 0.5);
  CHECK(trainer.state().outputs.scalar_type() == (precision == "fp32"       ? at::kFloat
                                                  : precision == "amp_bf16" ? at::kBFloat16
                                                                            : at::kHalf));
}

TEST_CASE("a stopped run resumes to the same bytes, in mid-epoch and at an epoch's end",
          "[trainer][resume][slow]") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, int64_t stop_at) {
    auto parts = parts_to_resume(folder, name);
    parts.options.max_duration = {3, TimeUnit::epoch};
    Trainer trainer(std::move(parts));
    if (stop_at > 0)
      trainer.add<AtBatch>("stop", stop_at,
                           [](RunControl& control) { control.request_stop("the test says so"); });
    trainer.fit();
    return weights_of(trainer);
  };
  const auto whole = run("whole", 0);
  const int64_t stop = GENERATE(1, 4, 6);
  const auto name = "stopped" + std::to_string(stop);
  CHECK_FALSE(at::equal(run(name, stop), whole));
  CHECK(at::equal(run(name, 0), whole));
  for (const char* file :
       {"model-00001-of-00001.safetensors", "optimizer-00001-of-00001.safetensors"})
    CHECK(bytes_of(folder.path() / name / "checkpoints/ep3-ba12" / file) ==
          bytes_of(folder.path() / "whole/checkpoints/ep3-ba12" / file));

  std::multiset<int64_t> batches;
  for (const auto& line : lines_of(folder.path() / name / "metrics.jsonl"))
    if (line.at("event") == "batch") batches.insert(line.at("batch").get<int64_t>());
  CHECK(batches == std::multiset<int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
}

TEST_CASE("a run that goes on with other batches has the schedule of its epochs",
          "[trainer][resume]") {
  const TemporaryFolder folder;
  struct Places : Algorithm {
    explicit Places(std::vector<double>& places) : places(places) {}
    void batch_start(State& state) override {
      places.push_back(state.elapsed());
      constexpr double pi = 3.141592653589793;
      CHECK(state.optimizer->lr() == Approx(0.05 * (1 + std::cos(pi * places.back()))));
    }
    std::vector<double>& places;
  };
  const auto run = [&](int64_t samples, double epochs) {
    auto parts = parts_to_resume(folder);
    parts.train_loader = std::make_shared<TinyLoader>(samples, 8);
    parts.schedulers = {std::make_shared<ScheduledBy<CosineDecay>>(CosineDecay())};
    parts.options.max_duration = {epochs, TimeUnit::epoch};
    Trainer trainer(std::move(parts));
    std::vector<double> places;
    trainer.add<Places>("places", places);
    trainer.fit();
    return places;
  };
  CHECK(run(64, 2).size() == 16);
  CHECK(run(16, 4) == std::vector<double>{0.5, 0.625, 0.75, 0.875});
}

TEST_CASE("a signal ends the run after its step, saved", "[trainer]") {
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  Trainer trainer(std::move(parts));
  trainer.add<AtBatch>("signal", 3, [](RunControl&) { std::raise(SIGTERM); });
  const auto summary = trainer.fit();
  CHECK(summary.status == "interrupted");
  CHECK(summary.signal == SIGTERM);
  CHECK(summary.time.batch == 3);
  const auto path = folder.path() / "run";
  CHECK(fs::read_symlink(path / "checkpoints/latest") == "ep0-ba3");
  CHECK(json_of(path / "summary.json").at("status") == "interrupted");
  CHECK(json_of(path / "summary.json").at("message") == "signal 15 (SIGTERM)");
}

TEST_CASE("sinks are told of the end once the summary is there, and before the lock is released",
          "[trainer]") {
  class AtTheEnd : public LogSink {
   public:
    explicit AtTheEnd(fs::path run) : run_(std::move(run)) {}
    void write(const Record&) override {}
    void run_end(const RunEnd& end) override {
      ended = json_of(run_ / "summary.json").at("status") == end.status && owner_of(run_);
    }
    bool ended = false;

   private:
    fs::path run_;
  };
  const std::vector<std::function<void(RunControl&)>> actions{
      [](RunControl&) {}, [](RunControl&) { std::raise(SIGTERM); },
      [](RunControl&) { throw RunError("no more data"); }};
  for (const auto& action : actions) {
    const TemporaryFolder folder;
    const auto sink = std::make_shared<AtTheEnd>(folder.path() / "run");
    auto parts = parts_to_resume(folder);
    parts.loggers = {sink};
    Trainer trainer(std::move(parts));
    trainer.add<AtBatch>("action", 3, action);
    try {
      trainer.fit();
    } catch (const RunError&) {
    }
    CHECK(sink->ended);
    CHECK_FALSE(owner_of(folder.path() / "run"));
  }
}

TEST_CASE("SIGHUP and SIGUSR1 ask for the end too, unless they are ignored", "[trainer]") {
  const auto on_hangup = std::signal(SIGHUP, SIG_DFL), on_pipe = std::signal(SIGPIPE, SIG_DFL);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    const InterruptGuard guard;
    std::raise(signal);
    CHECK(received_signal() == signal);
    CHECK(is_interruption(128 + signal));
  }
  CHECK(std::signal(SIGPIPE, on_pipe) == SIG_IGN);  // a reader may have hung up too
  CHECK_FALSE(is_interruption(128 + SIGKILL));
  {
    const InterruptGuard guard;  // what announces the end is not what asks for it a second time
    std::raise(SIGUSR1);
    std::raise(SIGTERM);
    CHECK(received_signal() == SIGTERM);
  }
  std::signal(SIGHUP, SIG_IGN);
  {
    const InterruptGuard guard;
    std::raise(SIGHUP);
    CHECK(received_signal() == 0);
  }
  CHECK(std::signal(SIGHUP, on_hangup) == SIG_IGN);
}

TEST_CASE("a signal during evaluation is caught up on after resuming", "[trainer][resume]") {
  class DuringEvaluation : public Callback {
   public:
    void eval_batch_end(const State&, Logger&, RunControl&) override { std::raise(SIGINT); }
  };
  const TemporaryFolder folder;
  Trainer interrupted(parts_to_resume(folder));
  interrupted.add<DuringEvaluation>("signal");
  CHECK(interrupted.fit().status == "interrupted");
  CHECK(Trainer(parts_to_resume(folder)).fit().status == "completed");
  std::vector<int64_t> evaluated;
  for (const auto& line : lines_of(folder.path() / "run/metrics.jsonl"))
    if (line.at("event") == "eval") evaluated.push_back(line.at("batch").get<int64_t>());
  CHECK(evaluated == std::vector<int64_t>{4, 8});
}

TEST_CASE("a run of which only the end was cut off is completed by the same command",
          "[trainer][resume]") {
  const TemporaryFolder folder;
  const auto parts_of_run = [&] {
    auto parts = parts_to_resume(folder);
    parts.options.max_duration = {3, TimeUnit::epoch};
    return parts;
  };
  const auto summary = [&] { return json_of(folder.path() / "run/summary.json"); };
  Trainer cut_off(parts_of_run());
  cut_off.add<AtBatch>("signal", 12, [](RunControl&) { std::raise(SIGTERM); });
  CHECK(cut_off.fit().status == "interrupted");
  const auto before = summary();
  CHECK(before.at("batches") == 12);
  CHECK(before.at("samples_per_second").get<double>() > 0);
  CHECK(before.at("wait_fraction").is_number());

  const auto ended = Trainer(parts_of_run()).fit();
  const auto after = summary();
  CHECK(after.at("status") == "completed");
  CHECK(after.at("message") == "");
  nlohmann::json last;
  for (const auto& line : lines_of(folder.path() / "run/metrics.jsonl"))
    if (line.at("event") == "eval") last = line;
  CHECK(last.at("batch") == 12);
  const std::string loss = "metrics/eval/CrossEntropy";
  CHECK(after.at("metrics").at(loss) == last.at(loss));
  CHECK(after.at("metrics").at(loss) != before.at("metrics").at(loss));
  CHECK(ended.metrics.at(loss) == last.at(loss).get<double>());

  Trainer(parts_of_run()).fit();
  const auto again = summary();
  CHECK(again.at("status") == "completed");
  for (const char* key : {"samples_per_second", "wait_fraction"})
    for (const auto& one : {after, again}) CHECK(one.at(key) == before.at(key));
}

TEST_CASE("a failure at the end alone is made good by the same command", "[trainer][resume]") {
  class FailsAtTheEnd : public Callback {
   public:
    void fit_end(const State&, Logger&, RunControl&) override { throw RunError("no room"); }
  };
  const TemporaryFolder folder;
  const auto parts_of_run = [&] {
    auto parts = parts_to_resume(folder);
    parts.options.save_async = false;
    return parts;
  };
  const auto status = [&] { return json_of(folder.path() / "run/summary.json").at("status"); };
  Trainer failed(parts_of_run());
  failed.add<FailsAtTheEnd>("fails");
  CHECK_THROWS_WITH(failed.fit(), "callbacks.fails at fit_end: no room");
  CHECK(status() == "failed");
  Trainer(parts_of_run()).fit();
  CHECK(status() == "completed");
}

TEST_CASE("the run folder holds what the contract says", "[trainer]") {
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  parts.options.save_interval = {2, TimeUnit::batch};
  parts.options.save_num_checkpoints_to_keep = 2;
  parts.recipe = "model: x\n";
  Trainer(std::move(parts)).fit();
  const auto path = folder.path() / "run";
  CHECK(bytes_of(path / "hparams.yaml") == "model: x\n");
  const auto summary = json_of(path / "summary.json");
  for (const char* key :
       {"status", "message", "stopped", "ended", "epochs", "batches", "samples", "seconds",
        "samples_per_second", "wait_fraction", "limited_by", "metrics", "best_metrics", "device",
        "precision", "world_size", "peak_memory_bytes", "version"})
    CHECK(summary.contains(key));
  CHECK(summary.at("status") == "completed");
  CHECK(summary.at("batches") == 8);
  CHECK(summary.at("metrics").contains("metrics/eval/CrossEntropy"));
  CHECK(fs::exists(path / "checkpoints/ep2-ba8"));
  CHECK(fs::exists(path / "checkpoints/ep1-ba6"));
  CHECK_FALSE(fs::exists(path / "checkpoints/ep1-ba4"));
  CHECK(fs::read_symlink(path / "checkpoints/latest") == "ep2-ba8");

  auto again = tiny_parts();
  again.options.run_dir = folder.path().string();
  again.options.run_name = "run";
  CHECK_THROWS_AS(Trainer(std::move(again)), UserError);
}

TEST_CASE("a failure is told by summary.json and leaves the last checkpoint", "[trainer]") {
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  Trainer trainer(std::move(parts));
  trainer.add<AtBatch>("fail", 6, [](RunControl&) { throw RunError("as the test wants it"); });
  const std::string problem = "callbacks.fail at batch_end: as the test wants it";
  CHECK_THROWS_WITH(trainer.fit(), problem);
  const auto path = folder.path() / "run";
  CHECK(json_of(path / "summary.json").at("status") == "failed");
  CHECK(json_of(path / "summary.json").at("message") == problem);
  CHECK(fs::read_symlink(path / "checkpoints/latest") == "ep1-ba4");
}

namespace {

struct ThrowsAtLoss : Algorithm {
  void after_loss(State&) override { throw std::out_of_range("index 9"); }
};
struct ThrowsTransform : Algorithm {
  SampleTransform sample_transform(const State&) override {
    return [](const MutableImage&, const SampleKey&) { throw std::logic_error("no such pixel"); };
  }
};
struct ThrowsNumber : Callback {
  void eval_batch_end(const State&, Logger&, RunControl&) override { throw 42; }
};
struct Refuses : Callback {
  void fit_start(const State&, Logger&, RunControl&) override { throw UserError("no such file"); }
};

struct TransformingLoader : TinyLoader {
  using TinyLoader::TinyLoader;
  void add_transform(SampleTransform transform) override { transform_ = std::move(transform); }
  std::optional<RawBatch> next() override {
    auto batch = TinyLoader::next();
    if (batch && transform_) transform_({batch->images.mutable_data_ptr<uint8_t>(), 8, 8, 3}, {});
    return batch;
  }
  SampleTransform transform_;
};

/// What it throws is no exception of LibTorch's.
struct ThrowingModel : TinyModel {
  enum Where { training, evaluation, losses } where;
  explicit ThrowingModel(Where where) : where(where) {}
  at::Tensor forward(const at::Tensor& input) override {
    if (where == (is_training() ? training : evaluation)) throw std::runtime_error("no layer");
    return TinyModel::forward(input);
  }
  at::Tensor loss(const at::Tensor& logits, const Target& target, Over over) override {
    if (where == losses) throw std::runtime_error("no loss");
    return TinyModel::loss(logits, target, over);
  }
};

}  // namespace

TEST_CASE("an exception names the component that threw it, and where", "[trainer]") {
  const auto fit = [](auto&& change) {
    auto parts = tiny_parts();
    parts.train_loader = std::make_shared<TransformingLoader>(32, 8);
    Trainer trainer(std::move(parts));
    change(trainer);
    trainer.fit();
  };
  const auto with = [&]<class T>(std::type_identity<T>) {
    fit([](Trainer& trainer) { trainer.add<T>("mine"); });
  };
  CHECK_THROWS_WITH(with(std::type_identity<ThrowsAtLoss>()),
                    "algorithms.mine at after_loss: index 9");
  CHECK_THROWS_WITH(with(std::type_identity<ThrowsTransform>()),
                    "algorithms.mine at sample_transform: no such pixel");
  CHECK_THROWS_WITH(
      with(std::type_identity<ThrowsNumber>()),
      "callbacks.mine at eval_batch_end: it threw something other than a std::exception");
  CHECK_THROWS_WITH(with(std::type_identity<Refuses>()),
                    "callbacks.mine at fit_start: no such file");
  CHECK_THROWS_AS(with(std::type_identity<Refuses>()), UserError);

  const auto with_model = [](ThrowingModel::Where where) {
    auto parts = tiny_parts();
    parts.model = std::make_shared<ThrowingModel>(where);
    if (where == ThrowingModel::losses) parts.model->set_title("model.mine");
    Trainer(std::move(parts)).fit();
  };
  CHECK_THROWS_WITH(with_model(ThrowingModel::training),
                    Catch::EndsWith("ThrowingModel at forward on a batch of shape [8, 3, 8, 8]: "
                                    "no layer"));
  CHECK_THROWS_WITH(with_model(ThrowingModel::evaluation),
                    Catch::Contains("ThrowingModel at forward of an evaluation on a batch"));
  CHECK_THROWS_WITH(with_model(ThrowingModel::losses), "model.mine at loss: no loss");
}

TEST_CASE("what a sink in the loop fails on is written once, and the summary says so",
          "[trainer]") {
  class FailingSink : public LogSink {
   public:
    bool in_loop() const override { return true; }
    void write(const Record& record) override {
      names.push_back(record.values.at(0).first);
      if (record.time.batch == 3) throw RunError("disk full");
    }
    std::vector<std::string> names;
  };
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  parts.options.log_interval = {1, TimeUnit::batch};
  const auto sink = std::make_shared<FailingSink>();
  parts.loggers = {sink};
  CHECK_THROWS_WITH(Trainer(std::move(parts)).fit(), "disk full");
  CHECK(json_of(folder.path() / "run/summary.json").at("status") == "failed");
  for (const auto& name : sink->names)
    CHECK((name == "loss/train" || name.starts_with("time/")));  // the latter once, at the end
  CHECK(sink->names.size() >= 3);
}

TEST_CASE("what an epoch's end takes counts as training", "[trainer]") {
  class SlowSink : public LogSink {
   public:
    bool in_loop() const override { return true; }
    void write(const Record& record) override {
      if (record.event == "batch" && record.time.batch == 12)  // is handed over with the epoch's
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  };
  const TemporaryFolder folder;
  auto parts = parts_to_resume(folder);
  parts.options.max_duration = {3, TimeUnit::epoch};
  parts.options.log_interval = {1, TimeUnit::batch};
  parts.options.eval_interval = {0, TimeUnit::epoch};
  parts.loggers = {std::make_shared<SlowSink>()};
  Trainer(std::move(parts)).fit();
  // Two batches of eight samples count, the 11th and the 12th, which ends an epoch.
  const auto summary = json_of(folder.path() / "run/summary.json");
  CHECK(summary.at("batches") == 12);
  CHECK(summary.at("samples_per_second").get<double>() <= 2 * 8 / 0.1);
}

TEST_CASE("evaluating before training leaves the run's clock alone", "[trainer]") {
  auto parts = tiny_parts();
  parts.options.max_duration = {1000, TimeUnit::second};
  Trainer trainer(std::move(parts));
  trainer.evaluate();
  CHECK(trainer.state().time.seconds == 0);
  trainer.add<AtBatch>("stop", 2, [](RunControl& control) { control.request_stop("enough"); });
  trainer.fit();
  CHECK(trainer.state().time.batch == 2);
  CHECK(trainer.state().time.seconds < 1000);
}

TEST_CASE("a loader without batches ends the run with an error", "[trainer]") {
  class EmptyLoader : public TinyLoader {
   public:
    using TinyLoader::TinyLoader;
    std::optional<RawBatch> next() override { return std::nullopt; }
  };
  auto parts = tiny_parts();
  parts.train_loader = std::make_shared<EmptyLoader>(32, 8);
  CHECK_THROWS_WITH(Trainer(std::move(parts)).fit(),
                    "the training loader gave no batch where its epochs have 4");
}

TEST_CASE("callbacks may ask for a checkpoint", "[trainer]") {
  const TemporaryFolder folder;
  auto parts = tiny_parts();
  parts.options.run_dir = folder.path().string();
  parts.options.run_name = "run";
  Trainer trainer(std::move(parts));
  trainer.add<AtBatch>("save", 3, [](RunControl& control) { control.request_checkpoint(); });
  trainer.fit();
  CHECK(fs::exists(folder.path() / "run/checkpoints/ep0-ba3/manifest.json"));
}

TEST_CASE("parts made by hand are checked before anything is made", "[trainer]") {
  const TemporaryFolder folder;
  const auto complaint = [&](auto&& change) -> std::string {
    auto parts = tiny_parts();
    parts.options.run_dir = folder.path().string();
    change(parts);
    try {
      Trainer(std::move(parts)).fit();
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(complaint([](auto& parts) { parts.options.max_duration = {}; }),
             Contains("max_duration: must be above 0"));
  CHECK_THAT(complaint([](auto& parts) { parts.options.train_batch_size = 0; }),
             Contains("train_batch_size: must be at least 1"));
  CHECK_THAT(complaint([](auto& parts) { parts.options.precision = "fp8"; }),
             Contains("precision: "));
  CHECK_THAT(complaint([](auto& parts) { parts.options.run_dir = "s3://bucket/runs"; }),
             Contains("run_dir: must be a folder of this machine, not 's3://bucket/runs'"));
  CHECK_THAT(complaint([](auto& parts) { parts.train_loader = nullptr; }),
             Contains("a train_loader and an optimizer are needed"));
  CHECK_THAT(complaint([](auto& parts) { parts.optimizer = nullptr; }),
             Contains("a train_loader and an optimizer are needed"));
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("parts for evaluation need neither duration nor batch size", "[trainer]") {
  auto parts = tiny_parts();
  parts.options.max_duration = {};
  parts.options.train_batch_size = 0;
  parts.train_loader = nullptr;
  parts.optimizer = nullptr;
  CHECK(Trainer(std::move(parts)).evaluate().size() == 2);
}

}  // namespace composer::trainer_test
