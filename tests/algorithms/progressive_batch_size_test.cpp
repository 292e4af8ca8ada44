#include "algorithms/progressive_batch_size.h"

#include <catch2/catch.hpp>
#include <mutex>

#include "base/error.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/composer/tiny_run.h"

namespace composer::progressive_batch_size_test {

using test::Fixture;
using Params = ProgressiveBatchSize::Params;
using Catch::Matchers::Contains;

namespace {

/// The samples of each update, one list a batch.
class Updates : public Algorithm {
 public:
  explicit Updates(std::vector<std::vector<int64_t>>& seen) : seen_(seen) {}
  void after_dataloader(State&) override { seen_.emplace_back(); }
  void after_train_batch(State& state) override { seen_.back().push_back(state.batch.samples()); }

 private:
  std::vector<std::vector<int64_t>>& seen_;
};

TrainerParts parts_of(int64_t batches) {
  auto parts = tiny_parts();
  parts.options.max_duration = {static_cast<double>(batches), TimeUnit::batch};
  parts.eval_loader = nullptr;
  return parts;
}

}  // namespace

TEST_CASE("updates grow from a share of the batch to the whole", "[progressive_batch_size]") {
  const auto size = [](double elapsed, Params params = {}) {
    return batch_size_at(elapsed, 1024, params);
  };
  CHECK(size(0) == 512);
  CHECK(size(0.49) == 512);
  CHECK(size(0.59) == 512);  // scale 0.65, round(1.54) = 2
  CHECK(size(0.61) == 1024);
  CHECK(size(1) == 1024);
  const Params eighth{.initial_scale = 0.125};
  CHECK(size(0.5, eighth) == 128);
  CHECK(size(0.55, eighth) == 256);  // scale 0.27, round(3.7) = 4
  CHECK(size(0.57, eighth) == 512);  // scale 0.33, round(3.03) = 3, of which 2 divides
  CHECK(size(0.65, eighth) == 512);
  CHECK(size(0.8, eighth) == 1024);
  CHECK(size(0.5, {.initial_scale = 0.25, .delay_fraction = 0.5, .finetune_fraction = 0.5}) ==
        1024);
  CHECK(batch_size_at(0, 1000, eighth) == 125);
  CHECK(batch_size_at(0, 96, {.initial_scale = 0.2}) == 24);
  CHECK(batch_size_at(0, 127, eighth) == 127);
  CHECK(batch_size_at(0, 4, {.initial_scale = 1e-300}) == 1);
}

TEST_CASE("a batch is divided equally, in parts no smaller than wanted",
          "[progressive_batch_size]") {
  CHECK(updates_of(128, 64) == 2);
  CHECK(updates_of(128, 128) == 1);
  CHECK(updates_of(100, 16) == 5);
  CHECK(updates_of(37, 64) == 1);
  CHECK(updates_of(97, 16) == 1);
}

TEST_CASE("hyperparameters that contradict each other are refused", "[progressive_batch_size]") {
  CHECK(Params{}.check().empty());
  CHECK_FALSE(Params{.delay_fraction = 0, .finetune_fraction = 1}.check().empty());
  CHECK_THAT((Params{.delay_fraction = 0.6, .finetune_fraction = 0.6}.check()),
             Contains("at most 1"));
}

TEST_CASE("batches that cannot be divided are refused", "[progressive_batch_size]") {
  Fixture f;
  ProgressiveBatchSize({}).fit_start(f.state);
  f.state.run_length.batch_size = 7;
  CHECK_THROWS_WITH(ProgressiveBatchSize({}).fit_start(f.state),
                    Contains("train_batch_size 7") && Contains("multiple of 2"));
}

TEST_CASE("each part has its own update, and no sample is lost", "[progressive_batch_size]") {
  std::vector<std::vector<int64_t>> seen;
  Trainer trainer(parts_of(10));
  trainer.add<ProgressiveBatchSize>("progressive_batch_size", Params{.initial_scale = 0.25});
  trainer.add<Updates>("updates", seen);
  trainer.fit();
  // scale 0.25 up to batch 5, then 0.5 and 0.75
  const std::vector<int64_t> quarters{2, 2, 2, 2}, halves{4, 4}, whole{8};
  CHECK(seen == std::vector{quarters, quarters, quarters, quarters, quarters, quarters, halves,
                            whole, whole, whole});
  CHECK(trainer.state().time.sample == 80);
}

TEST_CASE("divided batches train as batches of that size", "[progressive_batch_size]") {
  auto small = parts_of(8);
  small.train_loader = std::make_shared<TinyLoader>(32, 4);
  small.options.train_batch_size = 4;
  Trainer plain(std::move(small));
  plain.fit();
  Trainer divided(parts_of(4));
  divided.add<ProgressiveBatchSize>("progressive_batch_size",
                                    Params{.delay_fraction = 1, .finetune_fraction = 0});
  divided.fit();
  CHECK(at::equal(weights_of(divided), weights_of(plain)));
}

TEST_CASE("scale_lr divides the learning rate of small updates, for their batch only",
          "[progressive_batch_size]") {
  const bool scale_lr = GENERATE(false, true);
  std::vector<double> rates;
  struct Rates : Algorithm {
    explicit Rates(std::vector<double>& rates) : rates(rates) {}
    void after_train_batch(State& state) override {
      CHECK(state.optimizer->lr() == Approx(state.optimizer->groups()[0].lr.item<double>()));
      rates.push_back(state.optimizer->groups()[0].lr.item<double>());
    }
    std::vector<double>& rates;
  };
  Trainer trainer(parts_of(4));
  trainer.add<ProgressiveBatchSize>("progressive_batch_size",
                                    Params{.finetune_fraction = 0.5, .scale_lr = scale_lr});
  trainer.add<Rates>("rates", rates);
  trainer.fit();
  REQUIRE(rates.size() == 6);
  for (size_t i = 0; i < 6; ++i) CHECK(rates[i] == Approx(scale_lr && i < 4 ? 0.05 : 0.1));
}

TEST_CASE("a resumed run divides its batches the same", "[progressive_batch_size][resume]") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, int64_t stop) {
    auto parts = parts_of(8);
    parts.options.run_dir = folder.path().string();
    parts.options.run_name = name;
    parts.options.autoresume = true;
    struct Stop : Callback {
      explicit Stop(int64_t at) : at(at) {}
      void batch_end(const State& state, Logger&, RunControl& control) override {
        if (state.time.batch == at) control.request_stop("the test says so");
      }
      int64_t at;
    };
    Trainer trainer(std::move(parts));
    trainer.add<ProgressiveBatchSize>("progressive_batch_size", Params{.scale_lr = true});
    trainer.add<Stop>("stop", stop);
    trainer.fit();
    return weights_of(trainer);
  };
  const auto whole = run("whole", 8);
  run("stopped", 3);
  CHECK(at::equal(run("stopped", 8), whole));
}

TEST_CASE("the size of updates is logged and planned", "[progressive_batch_size]") {
  Fixture f;
  ProgressiveBatchSize algorithm({});
  algorithm.batch_start(f.state);
  CHECK(f.state.updates == 2);
  CHECK(f.logged("progressive_batch_size/batch_size") == 2);
  CHECK(algorithm.planned(f.state)[0].second == 2);
  f.state.time.batch = 90;
  algorithm.batch_start(f.state);
  CHECK(f.state.updates == 1);
  CHECK(algorithm.planned(f.state)[0].second == 4);
}

TEST_CASE("values of progressive_batch_size out of range are refused", "[progressive_batch_size]") {
  const auto problems = [](const std::string& key, const std::string& value) {
    ProgressiveBatchSize::Params params;
    auto given = Value::map();
    given.set(key, Value::scalar(value));
    Problems found;
    read_fields(given, collect(params), "progressive_batch_size", found);
    return found.size();
  };
  CHECK(problems("initial_scale", "0") == 1);
  CHECK(problems("initial_scale", "0.6") == 1);
  CHECK(problems("finetune_fraction", "0.6") == 1);
}

}  // namespace composer::progressive_batch_size_test
