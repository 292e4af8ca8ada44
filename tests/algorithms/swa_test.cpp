#include "algorithms/swa.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "tests/algorithms/tiny_model.h"

namespace composer::swa_test {

using test::Fixture;
using Params = Swa::Params;

namespace {

const Params every_batch{.update_interval = {1, TimeUnit::batch}};

void set(State& state, double value) {
  const at::NoGradGuard no_grad;
  for (auto& weight : state.model->parameters()) weight.fill_(value);
}

double weight(const State& state) {
  return state.model->parameters()[0].flatten()[0].item<double>();
}

/// Ends batches `first` to `last` of a run of 2 epochs of 10; the weights after batch b are b * b,
/// unless `swa` set them.
void train(Swa& swa, State& state, int64_t first, int64_t last) {
  for (int64_t batch = first; batch <= last; ++batch) {
    set(state, static_cast<double>(batch * batch));
    state.time = {
        .epoch = (batch - 1) / 10, .batch = batch, .batch_in_epoch = (batch - 1) % 10 + 1};
    swa.batch_end(state);
    if (batch % 10 != 0) continue;
    state.time.next_epoch();
    swa.epoch_end(state);
  }
}

struct Run : Fixture {
  Run() : Fixture(10) { state.run_length.max_duration = {2, TimeUnit::epoch}; }
};

}  // namespace

TEST_CASE("every set of weights counts the same", "[swa]") {
  const std::vector<at::Tensor> averages{at::full({2}, 3.0)};
  add_to_average(averages, {at::full({2}, 9.0)}, 1);
  CHECK(averages[0][0].item<double>() == 6);
  add_to_average(averages, {at::full({2}, 12.0)}, 2);
  CHECK(averages[0][1].item<double>() == Approx(8));
}

TEST_CASE("at swa_end the parameters become the average", "[swa]") {
  Run f;
  const auto first = f.state.model->parameters()[0];
  const void* address = first.const_data_ptr();
  Swa swa(every_batch);
  train(swa, f.state, 1, 13);
  CHECK(swa.state_dict().values.empty());
  train(swa, f.state, 14, 17);
  CHECK(weight(f.state) == 17 * 17);
  CHECK(swa.state_dict().tensors.at("average.fc.bias")[0].item<double>() ==
        Approx((196 + 225 + 256 + 289) / 4.0));
  CHECK(f.logged("swa/count") == 4);
  train(swa, f.state, 18, 20);
  CHECK(weight(f.state) == Approx((196 + 225 + 256 + 289 + 324 + 361 + 400) / 7.0));
  CHECK(first.const_data_ptr() == address);
  CHECK(swa.state_dict().tensors.empty());
}

TEST_CASE("the end is found within an epoch, and training goes on from the average", "[swa]") {
  Run f;
  Swa swa({.swa_start = {0.5, TimeUnit::duration}, .swa_end = {0.8, TimeUnit::duration}});
  train(swa, f.state, 1, 15);
  CHECK(weight(f.state) == 15 * 15);
  train(swa, f.state, 16, 16);
  CHECK(weight(f.state) == 100);
  train(swa, f.state, 17, 20);
  CHECK(weight(f.state) == 20 * 20);
}

TEST_CASE("an end at an epoch's end takes in that epoch first", "[swa]") {
  Run f;
  Swa swa({.swa_start = {1, TimeUnit::epoch}, .swa_end = {2, TimeUnit::epoch}});
  train(swa, f.state, 1, 20);
  CHECK(weight(f.state) == (100 + 400) / 2);
}

TEST_CASE("the interval counts from swa_start", "[swa]") {
  Run f;
  Swa swa({.swa_start = {3, TimeUnit::batch},
           .swa_end = {9, TimeUnit::batch},
           .update_interval = {4, TimeUnit::batch}});
  train(swa, f.state, 1, 9);
  CHECK(weight(f.state) == (9 + 49) / 2);
}

TEST_CASE("nothing to average leaves the weights alone", "[swa]") {
  Run f;
  Swa swa({.swa_start = {3, TimeUnit::batch}, .swa_end = {5, TimeUnit::batch}});
  train(swa, f.state, 1, 6);
  CHECK(weight(f.state) == 36);
}

TEST_CASE("an average goes on where it stopped, before and after its end", "[swa]") {
  Run f, g;
  Swa whole(every_batch);
  train(whole, f.state, 1, 20);
  const double expected = weight(f.state);
  for (const int64_t stop : {13, 16, 19, 20}) {
    CAPTURE(stop);
    Swa first(every_batch), second(every_batch);
    train(first, g.state, 1, stop);
    const auto saved = first.state_dict();
    if (stop > 13) second.load_state_dict(saved);
    second.fit_start(g.state);
    CHECK(second.state_dict().tensors.size() == saved.tensors.size());
    train(second, g.state, stop + 1, 20);
    CHECK(weight(g.state) == expected);
  }
  CHECK_THROWS_AS(whole.load_state_dict({}), UserError);
}

TEST_CASE("swa_start and swa_end must be in order and of one unit", "[swa]") {
  CHECK(Params{}.check().empty());
  CHECK_FALSE(Params{.swa_start = {0.98, TimeUnit::duration}}.check().empty());
  CHECK_FALSE(Params{.swa_start = {1, TimeUnit::epoch}}.check().empty());
  CHECK_FALSE(Params{.swa_end = {1.5, TimeUnit::duration}}.check().empty());
  CHECK_FALSE(Params{.update_interval = {0.1, TimeUnit::duration}}.check().empty());
  CHECK_FALSE(Params{.schedule_swa_lr = true}.check().empty());
}

}  // namespace composer::swa_test
