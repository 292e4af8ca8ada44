#include "algorithms/stochastic_depth.h"

#include "algorithms/parts/schedule.h"
#include "base/error.h"
#include "base/log.h"
#include "base/random.h"
#include "composer/logging/logger.h"
#include "composer/loop/state.h"
#include "nn/device/device.h"
#include "nn/network/layer.h"
#include "nn/network/operations.h"

namespace composer {
namespace {

Random random_of(const DepthDraws& draws, int64_t index) {
  return Random(draws.state->seed, "stochastic_depth.drop", static_cast<uint64_t>(index),
                static_cast<uint64_t>(draws.state->time.batch));
}

/// The share of their full rates that the blocks have. Weights from a file, of unknown training
/// time, count as weights at the end of a run.
double ramp_of(const DepthDraws* draws, bool training) {
  if (draws == nullptr) return 1;
  const State& state = *draws->state;
  const bool from_file = !training && state.optimizer == nullptr && state.time.batch == 0;
  return from_file ? 1 : StochasticDepth::ramp(state, draws->warmup);
}

std::string rounded(double rate) {
  auto text = std::to_string(rate);
  text.resize(text.find('.') + 4);
  return text;
}

/// float32 [samples, 1, 1, 1]: 0 where the branch is dropped, else `kept`.
at::Tensor sample_factors(Random random, int64_t first_sample, int64_t samples, double rate,
                          double kept) {
  for (int64_t i = 0; i < first_sample; ++i) random.uniform();
  auto factors = at::empty({samples, 1, 1, 1}, at::kFloat);
  for (auto* value = factors.data_ptr<float>(); samples > 0; --samples)
    *value++ = random.uniform() < rate ? 0.0f : static_cast<float>(kept);
  return factors;
}

}  // namespace

StochasticBlock::StochasticBlock(std::shared_ptr<ResidualBlock> original, Draw draw, double rate,
                                 int64_t index, std::weak_ptr<const DepthDraws> draws,
                                 bool scale_by_keep)
    : original_(std::move(original)),
      draw_(draw),
      rate_(rate),
      index_(index),
      draws_(std::move(draws)),
      scale_by_keep_(scale_by_keep) {
  for (const auto& parameter : original_->named_parameters(/*recurse=*/false))
    register_parameter(parameter.key(), parameter.value());
  for (const auto& buffer : original_->named_buffers(/*recurse=*/false))
    register_buffer(buffer.key(), buffer.value());
  for (const auto& slot : original_->slots())
    add(slot.name(), slot.layer()).recompute(slot.recomputes());
}

void StochasticBlock::train(bool on) {
  ResidualBlock::train(on);
  original_->train(on);
}

std::string StochasticBlock::describe() const {
  return "StochasticBlock: " + original_->describe() + ", drop rate " + rounded(rate_) +
         (draw_ == Draw::block ? "" : " a sample") +
         (scale_by_keep_ ? ", scaled where it is kept" : "");
}

// Surgery sees the slots of this block; the original calls its own.
void StochasticBlock::hand_on_replaced_layers() {
  for (size_t i = 0; i < slots().size(); ++i) {
    Slot& slot = original_->slots()[i];
    if (slot.layer() != slots()[i].layer()) slot.set(slots()[i].layer());
    slot.recompute(slots()[i].recomputes());
  }
}

at::Tensor StochasticBlock::without_residual(const at::Tensor& input) {
  auto skipped = shortcut(input);
  return skipped.is_alias_of(input) ? skipped : followed_in_place(skipped, {}, activation());
}

at::Tensor StochasticBlock::joined(at::Tensor branch, const at::Tensor& input) {
  return followed_in_place(std::move(branch), shortcut(input), activation());
}

at::Tensor StochasticBlock::forward(const at::Tensor& input) {
  hand_on_replaced_layers();
  const auto draws = draws_.lock();
  const double rate = rate_ * ramp_of(draws.get(), is_training());
  const bool draws_now = is_training() && draws != nullptr;
  if (rate == 0 || (scale_by_keep_ && !draws_now)) return original_->forward(input);
  if (!draws_now) return joined(op::scale(residual(input), 1 - rate), input);
  auto random = random_of(*draws, index_);
  const double kept = scale_by_keep_ ? 1 / (1 - rate) : 1;
  if (draw_ == Draw::sample) {
    const auto branch = residual(input);
    const auto drawn =
        sample_factors(random, draws->state->first_sample, input.size(0), rate, kept);
    const auto factors = copy_to(branch.device(), drawn).to(branch.scalar_type());
    return joined(op::multiply(branch, factors), input);
  }
  if (random.uniform() < rate) return without_residual(input);
  return scale_by_keep_ ? joined(op::scale(residual(input), kept), input)
                        : original_->forward(input);
}

std::string StochasticDepth::Params::check() const {
  return check_start("drop_warmup", drop_warmup);
}

double StochasticDepth::rate(int64_t index, int64_t blocks, const Params& params) {
  const auto& distribution = params.drop_distribution;
  if (distribution == "uniform") return params.drop_rate;
  const bool from_zero = distribution == "linear_from_zero";
  const auto position = static_cast<double>(distribution == "linear" ? index + 1 : index);
  const auto whole = static_cast<double>(from_zero ? std::max<int64_t>(blocks - 1, 1) : blocks);
  return position / whole * params.drop_rate;
}

double StochasticDepth::ramp(const State& state, const Time& warmup) {
  if (warmup.value == 0) return 1;
  const double done = warmup.unit == TimeUnit::duration
                          ? state.elapsed() / warmup.value
                          : static_cast<double>(state.run_length.position(state.time)) /
                                state.run_length.batches(warmup);
  return std::min(done, 1.0);
}

std::vector<Replacement> apply_stochastic_depth(Block& model, const StochasticDepth::Params& params,
                                                const std::weak_ptr<const DepthDraws>& draws) {
  const auto block_of = [](Layer& layer) {
    auto block = std::dynamic_pointer_cast<ResidualBlock>(layer.shared_from_this());
    return dynamic_cast<StochasticBlock*>(&layer) == nullptr ? block : nullptr;
  };
  const bool counts_all = params.drop_distribution != "linear";
  const auto counts = [&](Layer& layer) {
    const auto* block = dynamic_cast<Block*>(&layer);
    return block_of(layer) != nullptr || (counts_all && block != nullptr && block->adds_depth());
  };
  int64_t residual_blocks = 0, blocks = 0, position = 0, index = 0;
  replace_layers(model, [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
    if (block_of(layer) != nullptr) ++residual_blocks;
    if (counts(layer)) ++blocks;
    return nullptr;
  });
  if (residual_blocks == 0)
    throw UserError(
        "algorithms.stochastic_depth: the model has no residual block to drop; remove it, or take "
        "a residual network");
  const auto draw = params.stochastic_method == "sample" ? StochasticBlock::Draw::sample
                                                         : StochasticBlock::Draw::block;
  return replace_layers(model, [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
    const int64_t here = position;
    if (counts(layer)) ++position;
    auto block = block_of(layer);
    if (block == nullptr) return nullptr;
    const double rate = StochasticDepth::rate(here, blocks, params);
    return std::make_shared<StochasticBlock>(std::move(block), draw, rate, index++, draws,
                                             params.scale_by_keep);
  });
}

StochasticDepth::StochasticDepth(Params params) : params_(std::move(params)) {
  if (!params_.target_layer_name.empty())
    log::warn("algorithms.stochastic_depth.target_layer_name: '" + params_.target_layer_name +
              "' has no effect: every residual block of the model is taken");
  if (params_.use_same_gpu_seed)
    log::warn(
        "algorithms.stochastic_depth.use_same_gpu_seed: has no effect: draws follow from the "
        "recipe's seed, the batch, the block and the sample");
}

void StochasticDepth::init(State& state) {
  draws_ = std::make_shared<DepthDraws>(DepthDraws{.state = &state, .warmup = params_.drop_warmup});
  replacements_ = apply_stochastic_depth(*state.model, params_, draws_);
  log_count(state, "stochastic_depth/num_stochastic_layers",
            "stochastic_depth:", "residual blocks may be dropped");
}

void StochasticDepth::fit_start(State& state) {
  warn_if_longer(state, "algorithms.stochastic_depth.drop_warmup", params_.drop_warmup);
}

void StochasticDepth::after_dataloader(State& state) {
  state.logger->log("stochastic_depth/drop_rate",
                    params_.drop_rate * ramp(state, params_.drop_warmup));
}

std::vector<std::pair<std::string, double>> StochasticDepth::planned(const State& state) const {
  return {{"stochastic_depth/drop_rate", params_.drop_rate * ramp(state, params_.drop_warmup)}};
}

}  // namespace composer
