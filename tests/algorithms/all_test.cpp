#include "algorithms/all.h"

#include <catch2/catch.hpp>

namespace composer::all_test {

TEST_CASE("every built-in algorithm is described, builds with its defaults, and does something",
          "[algorithms]") {
  Registry known;
  add_builtin_algorithms(known);
  for (const auto& name : known.algorithms.names()) {
    INFO(name);
    CHECK_FALSE(known.algorithms.doc(name).empty());
    CHECK(known.algorithms.make(name)->build() != nullptr);
    for (const auto& [other, reason] : known.algorithms.make(name)->compatibility().excludes) {
      CHECK(known.algorithms.contains(other));
      CHECK_FALSE(reason.empty());
    }
  }
}

TEST_CASE("values out of range are refused by name", "[algorithms]") {
  Registry known;
  add_builtin_algorithms(known);
  const auto problems = [&](const std::string& name, const std::string& key,
                            const std::string& value) {
    const auto component = known.algorithms.make(name);
    auto given = Value::map();
    given.set(key, Value::scalar(value));
    Problems found;
    read_fields(given, component->fields(), name, found);
    return found.size();
  };
  CHECK(problems("colout", "p_row", "1.1") == 1);
  CHECK(problems("cutmix", "alpha", "0") == 1);
  CHECK(problems("cutout", "length", "1.5") == 1);
  CHECK(problems("cutout", "num_holes", "0") == 1);
  CHECK(problems("factorize", "min_channels", "0") == 1);
  CHECK(problems("ghost_batchnorm", "ghost_batch_size", "1") == 1);
  CHECK(problems("mixup", "alpha", "-1") == 1);
  CHECK(problems("label_smoothing", "smoothing", "0.2") == 0);
  CHECK(problems("label_smoothing", "smoothing", "1.5") == 1);
  CHECK(problems("progressive_resizing", "mode", "nearest") == 1);
  CHECK(problems("progressive_resizing", "finetune_fraction", "0.6") == 1);
  CHECK(problems("progressive_resizing", "size_increment", "0") == 1);
  CHECK(problems("progressive_resizing", "resize_targets", "true") == 1);
  CHECK(problems("blurpool", "min_channels", "-1") == 1);
  CHECK(problems("ema", "half_life", "0ba") == 1);
  CHECK(problems("ema", "half_life", "10sp") == 1);
  CHECK(problems("ema", "update_interval", "1ep") == 1);
  CHECK(problems("squeeze_excite", "latent_channels", "0") == 1);
  CHECK(problems("stochastic_depth", "drop_rate", "1.1") == 1);
  CHECK(problems("swa", "swa_end", "0.6dur") == 1);
  CHECK(problems("swa", "schedule_swa_lr", "true") == 1);
  CHECK(problems("gradient_clipping", "clipping_type", "agc") >= 1);
  CHECK(problems("layer_freezing", "freeze_level", "1.5") == 1);
  CHECK(problems("quantization_aware", "start", "2dur") == 1);
  CHECK(problems("quantization_aware", "activation_bits", "9") == 1);
  CHECK(problems("weight_standardization", "n_last_layers_ignore", "-1") == 1);
}

}  // namespace composer::all_test
