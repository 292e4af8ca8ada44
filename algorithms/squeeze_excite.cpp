#include "algorithms/squeeze_excite.h"

#include "composer/loop/state.h"
#include "nn/network/layer.h"

namespace composer {

std::vector<Replacement> apply_squeeze_excite(Block& model, const SqueezeExcite::Params& params,
                                              uint64_t seed) {
  uint64_t index = 0;
  // A factorised convolution gets its gates after the second half.
  std::map<const Layer*, int64_t> in_channels;
  return replace_some(
      model,
      [&](const std::string&, Layer& layer) -> std::shared_ptr<Layer> {
        if (dynamic_cast<const ChannelGates*>(&layer) != nullptr)
          for (const auto& inner : layer.modules(/*include_self=*/false))
            if (const auto* part = dynamic_cast<const Layer*>(inner.get())) in_channels[part] = 0;
        if (const auto* halves = dynamic_cast<Factorized*>(&layer)) {
          const auto* first = dynamic_cast<Conv2d*>(halves->first().get());
          if (first == nullptr) return nullptr;
          in_channels[halves->second().get()] = first->options().in_channels;
          in_channels[first] = 0;
        }
        const auto conv = std::dynamic_pointer_cast<Conv2d>(layer.shared_from_this());
        if (conv == nullptr) return nullptr;
        const int64_t in =
            in_channels.try_emplace(&layer, conv->options().in_channels).first->second;
        const int64_t out = conv->options().out_channels;
        if (std::min(in, out) < params.min_channels) return nullptr;
        return std::make_shared<SqueezeExciteConv>(conv, inner_width(params.latent_channels, out),
                                                   seed, index++);
      },
      "algorithms.squeeze_excite: the model has no convolution with at least " +
          std::to_string(params.min_channels) +
          " input and output channels outside of gates, so squeeze_excite would change "
          "nothing; remove "
          "it, or lower algorithms.squeeze_excite.min_channels");
}

void SqueezeExcite::init(State& state) {
  replacements_ = apply_squeeze_excite(*state.model, params_, state.seed);
  log_count(state, "squeeze_excite/num_squeeze_excite_layers", "squeeze_excite: gated",
            "convolutions");
}

}  // namespace composer
