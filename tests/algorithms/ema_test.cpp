#include "algorithms/ema.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "composer/checkpoint/checkpoint_folder.h"
#include "composer/checkpoint/weights.h"
#include "tests/algorithms/tiny_model.h"
#include "tests/composer/stopped_run.h"
#include "tests/composer/tiny_run.h"

namespace composer::ema_test {

using test::Fixture;
using Params = Ema::Params;

namespace {

const Time one_batch{1, TimeUnit::batch};

/// Sets every parameter to `value`, as a training step that ends batch `batch` would.
void step(Ema& ema, State& state, int64_t batch, double value) {
  {
    const at::NoGradGuard no_grad;
    for (auto& weight : state.model->parameters()) weight.fill_(value);
  }
  state.time.batch = batch;
  ema.batch_end(state);
}

double shadow(const Ema& ema) {
  return ema.state_dict().tensors.at("shadow.fc.bias")[0].item<double>();
}

double weight(const State& state) {
  return state.model->parameters()[0].flatten()[0].item<double>();
}

TrainerParts parts_of(const std::string& run_dir) {
  auto parts = tiny_parts();
  parts.options.max_duration = {8, TimeUnit::batch};
  parts.options.eval_interval = {3, TimeUnit::batch};
  parts.options.run_dir = run_dir;
  parts.options.run_name = "run";
  parts.options.autoresume = true;
  return parts;
}

Checkpoint train(const std::string& run_dir, std::vector<int64_t> stops, bool with_ema = true) {
  stops.push_back(-1);
  for (const int64_t stop : stops) {
    Trainer trainer(parts_of(run_dir));
    if (with_ema) trainer.add<Ema>("ema", Params{.half_life = {2, TimeUnit::batch}});
    trainer.add<StopAt>("stop", stop);
    trainer.fit();
  }
  return load_checkpoint(*newest_checkpoint(std::filesystem::path(run_dir) / "run/checkpoints"));
}

}  // namespace

TEST_CASE("ema is the last to see a step's weights, and there for all of an evaluation", "[ema]") {
  using Order = Algorithm::Order;
  const Ema ema{Params{}};
  for (const auto event : {Event::batch_end, Event::epoch_end, Event::eval_end, Event::predict_end})
    CHECK(ema.order(event) == Order::last);
  for (const auto event : {Event::eval_start, Event::predict_start})
    CHECK(ema.order(event) == Order::first);
}

TEST_CASE("the decay halves a weight in half_life", "[ema]") {
  CHECK(ema_decay(100, 1) == Approx(0.9930925).epsilon(1e-7));
  CHECK(ema_decay(100, 20) == Approx(0.8705506).epsilon(1e-7));
  CHECK(ema_decay(10, 1) == Approx(0.9330330).epsilon(1e-7));
}

TEST_CASE("floating tensors are averaged, others copied", "[ema]") {
  const std::vector<at::Tensor> averages{at::full({2}, 8.0f), at::tensor(int64_t{5}),
                                         at::full({3}, 2.0, at::kDouble)};
  compute_ema(averages, {at::full({2}, 4.0f), at::tensor(int64_t{7}), at::zeros({3}, at::kDouble)},
              0.75);
  CHECK(at::equal(averages[0], at::full({2}, 7.0f)));
  CHECK(averages[1].item<int64_t>() == 7);
  CHECK(at::equal(averages[2], at::full({3}, 1.5, at::kDouble)));
}

TEST_CASE("the average follows the weights by its half-life, from ema_start on", "[ema]") {
  Fixture f(10);
  Ema ema({.half_life = one_batch, .ema_start = {0.2, TimeUnit::duration}});
  step(ema, f.state, 1, 3);
  CHECK(ema.state_dict().tensors.empty());
  step(ema, f.state, 2, 4);
  CHECK(shadow(ema) == 4);
  step(ema, f.state, 3, 8);
  CHECK(shadow(ema) == 6);
  step(ema, f.state, 4, 0);
  CHECK(shadow(ema) == 3);
}

TEST_CASE("the interval thins the updates; epochs count at their end", "[ema]") {
  Fixture f(10);
  Ema thin({.half_life = {2, TimeUnit::batch}, .update_interval = Time{2, TimeUnit::batch}});
  step(thin, f.state, 1, 3);
  CHECK(thin.state_dict().tensors.empty());
  step(thin, f.state, 2, 4);
  step(thin, f.state, 3, 9);
  CHECK(shadow(thin) == 4);
  step(thin, f.state, 4, 8);
  CHECK(shadow(thin) == 6);

  Ema epochs({.half_life = {1, TimeUnit::epoch}});
  step(epochs, f.state, 10, 4);
  CHECK(epochs.state_dict().tensors.empty());
  f.state.time.epoch = 1;
  epochs.epoch_end(f.state);
  CHECK(shadow(epochs) == 4);
}

TEST_CASE("evaluation and prediction see the average, in the tensors' own storage", "[ema]") {
  Fixture f;
  Ema ema({.half_life = one_batch});
  ema.eval_start(f.state);
  ema.eval_end(f.state);
  step(ema, f.state, 1, 4);
  step(ema, f.state, 2, 8);
  const auto first = f.state.model->parameters()[0];
  const void* address = first.const_data_ptr();
  ema.eval_start(f.state);
  CHECK(weight(f.state) == 6);
  ema.eval_end(f.state);
  CHECK(weight(f.state) == 8);
  CHECK(shadow(ema) == 6);
  ema.predict_start(f.state);
  CHECK(weight(f.state) == 6);
  ema.predict_end(f.state);
  CHECK(weight(f.state) == 8);
  CHECK(first.const_data_ptr() == address);
  CHECK(first.requires_grad());
}

TEST_CASE("a loaded average goes on, and one of another model is refused", "[ema]") {
  Fixture f, g;
  Ema ema({.half_life = one_batch}), resumed({.half_life = one_batch});
  step(ema, f.state, 1, 4);
  step(ema, f.state, 2, 8);
  resumed.load_state_dict(ema.state_dict());
  check_equal(resumed.state_dict().tensors, ema.state_dict().tensors);
  step(resumed, g.state, 3, 0);
  CHECK(shadow(resumed) == 3);
  CHECK(shadow(ema) == 6);
  StateDict wrong = ema.state_dict();
  wrong.tensors["shadow.fc.bias"] = at::zeros({7});
  resumed.load_state_dict(wrong);
  CHECK_THROWS_AS(resumed.eval_start(f.state), UserError);
}

TEST_CASE("training and its checkpoints hold the training weights, resumed or not", "[ema]") {
  const TemporaryFolder plain, whole, parts;
  const auto with = train(whole.path().string(), {});
  const auto without = train(plain.path().string(), {}, false);
  const auto resumed = train(parts.path().string(), {2, 3, 6});
  check_equal(with.model, without.model);
  check_equal(resumed.model, with.model);
  const auto& average = with.parts.at("algorithms.ema").tensors;
  check_equal(resumed.parts.at("algorithms.ema").tensors, average);
  CHECK(average.size() == with.model.size());
  CHECK_FALSE(at::equal(average.at("shadow.fc.weight"), with.model.at("fc.weight")));
}

TEST_CASE("ema has the optimizer's step do its update where nothing comes in between", "[ema]") {
  Fixture f;
  Ema ema({.half_life = one_batch});
  step(ema, f.state, 1, 4);
  f.state.optimizer = std::make_shared<Sgd>(SgdParams{.lr = 1});
  f.state.optimizer->attach(*f.state.model);
  const auto train = [&](double to) {
    for (auto& weight : f.state.model->parameters()) weight.mutable_grad() = weight.detach() - to;
    ema.after_train_batch(f.state);
    f.state.optimizer->step();
    const double average = shadow(ema);
    ++f.state.time.batch;
    ema.batch_end(f.state);
    return average;
  };
  CHECK(train(8) == 4);  // another algorithm may act first
  CHECK(shadow(ema) == 6);
  f.state.step_is_final = true;
  CHECK(train(2) == 4);
  CHECK(shadow(ema) == 4);
  f.state.updates = 2;
  CHECK(train(8) == 4);
  CHECK(shadow(ema) == 6);
}

TEST_CASE("ema's average is the same by the optimizer's step and by itself", "[ema]") {
  struct Idle : Algorithm {
    void batch_end(State&) override {}
  };
  const auto average = [](bool idle) {
    auto parts = tiny_parts();
    Trainer trainer(std::move(parts));
    const auto ema = std::make_shared<Ema>(
        Params{.half_life = {3, TimeUnit::batch}, .update_interval = Time{2, TimeUnit::batch}});
    trainer.engine().add(Member<Algorithm>{"ema", ema, subscriptions<Ema>()});
    if (idle) trainer.add<Idle>("idle");
    trainer.fit();
    CHECK(trainer.state().step_is_final != idle);
    return ema->state_dict().tensors;
  };
  const auto by_step = average(false), by_itself = average(true);
  REQUIRE(by_step.size() == by_itself.size());
  for (const auto& [name, tensor] : by_step)
    CHECK(at::allclose(tensor, by_itself.at(name), 1e-6, 1e-7));
}

TEST_CASE("a weight that layers share has one average, which is exchanged once", "[ema]") {
  class Tied : public Model {
   public:
    Tied() {
      const auto layer = std::make_shared<Linear>(2, 2);
      add("one", layer), add("two", layer);
    }
    at::Tensor forward(const at::Tensor& input) override { return through_slots(input); }
    int64_t num_classes() const override { return 2; }
  };
  Tied model;
  WeightCopy copy("shadow.", false);
  copy.start(model);
  CHECK(copy.copies().size() == 2);
  for (const auto& average : copy.copies()) average.fill_(3);
  const auto trained = model.parameters()[0].detach().clone();
  copy.swap();
  CHECK(at::equal(model.parameters()[0].detach(), at::full({2, 2}, 3.0)));
  copy.swap();
  CHECK(at::equal(model.parameters()[0].detach(), trained));
  const auto state = copy.save();
  CHECK(state.tensors.size() == 4);
  WeightCopy back("shadow.", false);
  back.load(state);
  CHECK(back.ready(model));
  CHECK(at::equal(back.copies()[0], copy.copies()[0]));
}

TEST_CASE("times of other units are refused", "[ema]") {
  CHECK(Params{}.check().empty());
  CHECK(Params{.update_interval = Time{20, TimeUnit::batch}}.check().empty());
  CHECK_FALSE(Params{.half_life = {0.5, TimeUnit::duration}}.check().empty());
  CHECK_FALSE(Params{.update_interval = Time{1, TimeUnit::epoch}}.check().empty());
  CHECK_FALSE(Params{.ema_start = {5, TimeUnit::second}}.check().empty());
  CHECK_FALSE(Params{.ema_start = {1.5, TimeUnit::duration}}.check().empty());
}

}  // namespace composer::ema_test
