#include "algorithms/all.h"

#include <catch2/catch.hpp>

using namespace composer;

TEST_CASE("the built-in algorithms are registered with their events and defaults", "[algorithms]") {
  Registry known;
  add_builtin_algorithms(known);
  CHECK(known.algorithms.names() ==
        std::vector<std::string>{"blurpool", "channels_last", "colout", "cutmix", "cutout", "ema",
                                 "factorize", "ghost_batchnorm", "gradient_clipping",
                                 "label_smoothing", "layer_freezing", "mixup", "no_op_model",
                                 "progressive_resizing", "squeeze_excite", "stochastic_depth",
                                 "swa", "weight_standardization"});
  const auto events = [&](const std::string& name) {
    std::vector<std::string> all;
    const auto set = known.algorithms.make(name)->subscriptions();
    for (size_t i = 0; i < event_count; ++i)
      if (set.test(i)) all.emplace_back(event_names[i]);
    return all;
  };
  using Events = std::vector<std::string>;
  CHECK(events("blurpool") == Events{"init"});
  CHECK(events("channels_last") == Events{"init"});
  CHECK(events("colout") == Events{"after_dataloader"});
  CHECK(events("cutmix") == Events{"after_dataloader"});
  CHECK(events("cutout") == Events{"after_dataloader"});
  CHECK(events("ema") ==
        Events{"batch_end", "epoch_end", "eval_start", "eval_end", "predict_start", "predict_end"});
  CHECK(events("factorize") == Events{"init"});
  CHECK(events("ghost_batchnorm") == Events{"init"});
  CHECK(events("gradient_clipping") == Events{"after_train_batch"});
  CHECK(events("label_smoothing") == Events{"before_loss", "after_loss"});
  CHECK(events("layer_freezing") == Events{"fit_start", "epoch_end"});
  CHECK(events("mixup") == Events{"after_dataloader"});
  CHECK(events("no_op_model") == Events{"init"});
  CHECK(events("progressive_resizing") == Events{"after_dataloader"});
  CHECK(events("squeeze_excite") == Events{"init"});
  CHECK(events("stochastic_depth") == Events{"init", "after_dataloader", "before_train_batch",
                                             "before_forward", "eval_start", "predict_start"});
  CHECK(events("swa") == Events{"fit_start", "batch_end", "epoch_end"});
  CHECK(events("weight_standardization") == Events{"init"});
  for (const auto& name : known.algorithms.names())
    CHECK(known.algorithms.make(name)->build() != nullptr);
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
  CHECK(problems("weight_standardization", "n_last_layers_ignore", "-1") == 1);
}
