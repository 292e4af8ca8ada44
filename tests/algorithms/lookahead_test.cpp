#include "algorithms/lookahead.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "algorithms/ema.h"
#include "algorithms/whitening.h"
#include "base/error.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/composer/stopped_run.h"
#include "tests/composer/tiny_run.h"

namespace composer::lookahead_test {

using test::Fixture;
using Params = Lookahead::Params;

namespace {

const Time one_batch{1, TimeUnit::batch}, two_batches{2, TimeUnit::batch};

double weight(const State& state) {
  return state.model->parameters()[0].flatten()[0].item<double>();
}

void set(State& state, double value) {
  const at::NoGradGuard no_grad;
  for (auto& parameter : state.model->parameters()) parameter.fill_(value);
}

/// A training step that ends batch `batch` with every parameter at `value`; what the network has
/// then.
double step(Lookahead& lookahead, State& state, int64_t batch, double value) {
  set(state, value);
  state.time.batch = state.time.batch_in_epoch = batch;
  lookahead.batch_end(state);
  return weight(state);
}

Checkpoint train(const std::string& run_dir, std::vector<int64_t> stops, const Params& params) {
  stops.push_back(-1);
  for (const int64_t stop : stops) {
    auto parts = tiny_parts();
    parts.options.max_duration = {8, TimeUnit::batch};
    parts.options.run_dir = run_dir;
    parts.options.run_name = "run";
    parts.options.autoresume = true;
    Trainer trainer(std::move(parts));
    trainer.add<Lookahead>("lookahead", params);
    trainer.add<Ema>("ema", Ema::Params{.half_life = one_batch});
    trainer.add<StopAt>("stop", stop);
    trainer.fit();
  }
  return load_checkpoint(*newest_checkpoint(std::filesystem::path(run_dir) / "run/checkpoints"));
}

}  // namespace

TEST_CASE("slow weights move a part of the way and the fast ones go back", "[lookahead]") {
  const std::vector<at::Tensor> slow{at::full({2}, 8.0f), at::tensor(int64_t{5})},
      fast{at::full({2}, 4.0f), at::tensor(int64_t{7})};
  look_back(slow, fast, 0.25);
  CHECK(at::equal(slow[0], at::full({2}, 7.0f)));
  CHECK(at::equal(fast[0], slow[0]));
  CHECK(slow[1].item<int64_t>() == 7);
  CHECK(fast[1].item<int64_t>() == 7);
}

TEST_CASE("the network is set back every interval, from start on", "[lookahead]") {
  Fixture f(10);
  set(f.state, 0);
  Lookahead lookahead({.interval = two_batches});
  lookahead.batch_start(f.state);
  CHECK(step(lookahead, f.state, 1, 6) == 6);
  CHECK(step(lookahead, f.state, 2, 8) == 4);
  CHECK(step(lookahead, f.state, 3, 9) == 9);
  CHECK(step(lookahead, f.state, 4, 12) == 8);

  Lookahead late({.interval = two_batches, .start = {0.4, TimeUnit::duration}});
  late.batch_start(f.state);
  CHECK(late.state_dict().tensors.size() == f.state.model->parameters().size());
  Fixture g(10);
  Lookahead later({.interval = two_batches, .start = {0.4, TimeUnit::duration}});
  later.batch_start(g.state);
  CHECK(step(later, g.state, 2, 6) == 6);
  CHECK(later.state_dict().tensors.empty());
  CHECK(step(later, g.state, 4, 8) == 8);
  CHECK(step(later, g.state, 6, 16) == 12);
}

TEST_CASE("the cubic schedule keeps more and more", "[lookahead]") {
  Fixture f(10);
  set(f.state, 0);
  Lookahead lookahead({.interval = two_batches, .schedule = "cubic"});
  lookahead.batch_start(f.state);
  double slow = 0;
  for (int64_t batch = 1; batch <= 10; ++batch) {
    const double fast = 3.0 * static_cast<double>(batch);
    const double seen = step(lookahead, f.state, batch, fast);
    if (batch % 2 != 0) {
      CHECK(seen == fast);
      continue;
    }
    const double kept = 0.95 * 0.95 * std::pow(static_cast<double>(batch) / 10, 3);
    slow = kept * slow + (1 - kept) * fast;
    CHECK(seen == Approx(slow));
    CHECK(lookahead.planned(f.state).at(0).second == Approx(kept));
  }
}

TEST_CASE("an end between two updates leaves the slow weights too", "[lookahead]") {
  Fixture f(3);
  set(f.state, 0);
  Lookahead lookahead({.interval = two_batches, .schedule = "cubic"});
  lookahead.batch_start(f.state);
  const double slow = step(lookahead, f.state, 2, 9);
  CHECK(step(lookahead, f.state, 3, 1000) == Approx(slow));
}

TEST_CASE("epochs are intervals too", "[lookahead]") {
  Fixture f(4);
  f.state.run_length.max_duration = {2, TimeUnit::epoch};
  set(f.state, 0);
  Lookahead lookahead({.interval = {1, TimeUnit::epoch}});
  lookahead.batch_start(f.state);
  CHECK(step(lookahead, f.state, 4, 6) == 6);
  f.state.time.next_epoch();
  lookahead.epoch_end(f.state);
  CHECK(weight(f.state) == 3);

  Lookahead cubic({.interval = {1, TimeUnit::epoch}, .schedule = "cubic"});
  cubic.batch_start(f.state);
  CHECK(step(cubic, f.state, 8, 6) == 6);
  f.state.time.next_epoch();
  cubic.epoch_end(f.state);
  CHECK(weight(f.state) == Approx(3 + (1 - std::pow(0.95, 4)) * 3));
}

TEST_CASE("buffers belong to it with the cubic schedule, or if asked", "[lookahead]") {
  const auto kept = [](const Params& params) {
    Fixture f;
    f.state.model->register_buffer("mean", at::zeros({2}));
    Lookahead lookahead(params);
    lookahead.batch_start(f.state);
    return lookahead.state_dict().tensors.contains("slow.mean");
  };
  CHECK_FALSE(kept({}));
  CHECK(kept({.schedule = "cubic"}));
  CHECK(kept({.buffers = true}));
  CHECK_FALSE(kept({.schedule = "cubic", .buffers = false}));
}

TEST_CASE("a run with lookahead goes on with the same bits, and averages see it", "[lookahead]") {
  const std::string run_length = GENERATE("constant", "cubic");
  const Params params{.interval = two_batches, .schedule = run_length};
  const TemporaryFolder whole, parts;
  const auto straight = train(whole.path().string(), {}, params);
  const auto resumed = train(parts.path().string(), {3, 4, 7}, params);
  check_equal(resumed.model, straight.model);
  check_equal(resumed.optimizer.tensors, straight.optimizer.tensors);
  for (const char* part : {"algorithms.lookahead", "algorithms.ema"})
    check_equal(resumed.parts.at(part).tensors, straight.parts.at(part).tensors);
  CHECK(at::equal(straight.parts.at("algorithms.lookahead").tensors.at("slow.fc.weight"),
                  straight.model.at("fc.weight")));
}

TEST_CASE("lookahead runs before averages, however they are listed", "[lookahead]") {
  for (const bool first : {false, true}) {
    Engine engine;
    const auto add = [&](const std::string& name, std::shared_ptr<Algorithm> algorithm) {
      EventSet events;
      events.set(static_cast<size_t>(Event::batch_end));
      engine.add(Member<Algorithm>{name, std::move(algorithm), events});
    };
    if (first) add("lookahead", std::make_shared<Lookahead>(Params{}));
    add("ema", std::make_shared<Ema>(Ema::Params{}));
    if (!first) add("lookahead", std::make_shared<Lookahead>(Params{}));
    CHECK(engine.order(Event::batch_end) == std::vector<std::string>{"lookahead", "ema"});
  }
}

TEST_CASE("lookahead's times of other units are refused", "[lookahead]") {
  CHECK(Params{}.check().empty());
  CHECK_FALSE(Params{.interval = {0.5, TimeUnit::duration}}.check().empty());
  CHECK_FALSE(Params{.start = {5, TimeUnit::second}}.check().empty());
  CHECK_FALSE(Params{.start = {1.5, TimeUnit::duration}}.check().empty());
}

TEST_CASE("filters that the first batch fills are not drawn back to what was there before",
          "[lookahead]") {
  const auto first_layer = [](bool set_back) {
    Trainer trainer(tiny_parts());
    trainer.add<Whitening>("whitening", Whitening::Params{});
    if (set_back) trainer.add<Lookahead>("lookahead", Params{.interval = two_batches});
    trainer.fit();
    return trainer.state().model->named_parameters()["conv.weight"];
  };
  CHECK(at::equal(first_layer(true), first_layer(false)));
}

}  // namespace composer::lookahead_test
