// The recipes that come with the program, resolved with all of its components.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/params/value.h"
#include "composer/loop/loader.h"
#include "composer/recipe/recipe.h"
#include "composer/run/assemble.h"
#include "everything.h"
#include "program.h"
#include "tests/temporary_folder.h"

namespace composer::recipes_test {

using Words = std::vector<std::string>;

namespace {

Recipe resolved(const std::string& name, const Words& words = {}) {
  return resolve(find_recipe(name), words, everything());
}

std::optional<double> as_number(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return end == text.c_str() + text.size() ? std::optional(number) : std::nullopt;
}

Words names(const auto& components) {
  Words names;
  for (const auto& component : components) names.push_back(component->name());
  return names;
}

}  // namespace

TEST_CASE("every recipe resolves, and so does its dump, to the same") {
  const auto docs = list_recipes();
  CHECK(docs.size() >= 8);
  for (const RecipeDoc& doc : docs) {
    INFO(doc.name);
    const std::string text = dump(resolved(doc.name));
    CHECK(dump(resolve({"dump", text}, {}, everything())) == text);
  }
}

TEST_CASE("training and evaluation of a recipe read .beton files of their own") {
  for (const RecipeDoc& doc : list_recipes()) {
    INFO(doc.name);
    const Recipe plain = resolved(doc.name);
    const std::string name = plain.train_dataset->name();
    const bool divides_one = doc.name == "finetune";
    if (!plain.val_dataset || divides_one || name == "shapes") continue;
    const Recipe recipe = resolved(doc.name, {"--train_dataset." + name + ".use_ffcv", "true",
                                              "--val_dataset." + name + ".use_ffcv", "true"});
    CHECK(recipe.train_dataset->build()->location().path !=
          recipe.val_dataset->build()->location().path);
  }
}

TEST_CASE("ResNet-50 has Composer's values") {
  const Recipe recipe = resolved("resnet50");
  CHECK(recipe.options.max_duration.str() == "90ep");
  CHECK(recipe.options.train_batch_size == 2048);
  CHECK(recipe.options.eval_batch_size == 2048);
  CHECK(recipe.options.precision == "amp");
  CHECK(recipe.algorithms.empty());
  const std::string text = dump(recipe);
  for (const char* line :
       {"lr: 2.048", "momentum: 0.875", "weight_decay: 5.0e-04", "t_warmup: 8ep", "crop_size: 224",
        "resize_size: 256", "initializers: [kaiming_normal, bn_uniform]"})
    CHECK(text.find(line) != std::string::npos);
}

TEST_CASE("recipes of published results have their sources' values") {
  using Values = std::vector<std::pair<std::string, std::string>>;
  const auto has = [](const std::string& name, const Values& values) {
    Problems problems;
    const auto root = parse_yaml(dump(resolved(name)), name, problems);
    for (const auto& [path, expected] : values) {
      const Value* value = &*root;
      for (size_t begin = 0; value && begin < path.size();) {
        const size_t end = std::min(path.find('.', begin), path.size());
        value = value->find(path.substr(begin, end - begin));
        begin = end + 1;
      }
      INFO(name << ": " << path);
      REQUIRE(value);
      const auto number = as_number(expected), found = as_number(one_line(*value));
      if (number && found)
        CHECK(*found == Approx(*number).epsilon(1e-6));
      else
        CHECK(one_line(*value) == expected);
    }
  };
  const auto also = [](Values values, const Values& more) {
    values.insert(values.end(), more.begin(), more.end());
    return values;
  };

  const Values mosaic = {
      {"model.resnet.model_name", "resnet50"},
      {"model.resnet.loss_name", "binary_cross_entropy_with_logits"},
      {"model.resnet.initializers", "[kaiming_normal, bn_uniform, linear_log_constant_bias]"},
      {"train_dataset.imagenet.crop_size", "176"},
      {"val_dataset.imagenet.resize_size", "232"},
      {"val_dataset.imagenet.crop_size", "224"},
      {"train_batch_size", "2048"},
      {"optimizer.decoupled_sgdw.lr", "2.048"},
      {"optimizer.decoupled_sgdw.momentum", "0.875"},
      {"optimizer.decoupled_sgdw.weight_decay", "5e-4"},
      {"schedulers.cosine_decay_with_warmup.t_warmup", "8ep"},
      {"schedulers.cosine_decay_with_warmup.alpha_f", "0"},
      {"algorithms.ema.half_life", "100ba"},
      {"algorithms.ema.update_interval", "20ba"},
      {"algorithms.progressive_resizing.mode", "resize"},
      {"algorithms.progressive_resizing.size_increment", "4"},
      {"algorithms.progressive_resizing.finetune_fraction", "0.2"}};
  has("mild", also(mosaic, {{"max_duration", "36ep"},
                            {"algorithms.label_smoothing.smoothing", "0.08"},
                            {"algorithms.progressive_resizing.initial_scale", "0.5"},
                            {"algorithms.progressive_resizing.delay_fraction", "0.4"}}));
  has("resnet50/medium", also(mosaic, {{"max_duration", "135ep"},
                                       {"algorithms.label_smoothing.smoothing", "0.1"},
                                       {"algorithms.mixup.alpha", "0.2"},
                                       {"algorithms.sam.rho", "0.5"},
                                       {"algorithms.sam.interval", "10"},
                                       {"algorithms.progressive_resizing.initial_scale", "0.5"},
                                       {"algorithms.progressive_resizing.delay_fraction", "0.4"}}));
  has("hot", also(mosaic, {{"max_duration", "270ep"},
                           {"algorithms.label_smoothing.smoothing", "0.13"},
                           {"algorithms.mixup.alpha", "0.25"},
                           {"algorithms.sam.rho", "0.5"},
                           {"algorithms.sam.interval", "5"},
                           {"algorithms.colout.p_row", "0.05"},
                           {"algorithms.colout.p_col", "0.05"},
                           {"algorithms.randaugment.depth", "1"},
                           {"algorithms.randaugment.severity", "9"},
                           {"algorithms.stochastic_depth.stochastic_method", "sample"},
                           {"algorithms.stochastic_depth.drop_distribution", "linear"},
                           {"algorithms.stochastic_depth.scale_by_keep", "false"},
                           {"algorithms.stochastic_depth.drop_rate", "0.1"},
                           {"algorithms.progressive_resizing.initial_scale", "0.6"},
                           {"algorithms.progressive_resizing.delay_fraction", "0.2"}}));

  // epochs; 160 pixels until the second, 192 from the third on
  for (const auto& [epochs, small_until, large_from] : {std::array{16, 11, 13},
                                                        {24, 17, 20},
                                                        {32, 23, 27},
                                                        {40, 29, 34},
                                                        {56, 41, 48},
                                                        {88, 65, 76}}) {
    const std::string end = std::string("_").append(std::to_string(epochs)).append("_epochs");
    const Values ffcv = {{"max_duration", std::to_string(epochs) + "ep"},
                         {"train_dataset.imagenet.crop_size", "192"},
                         {"val_dataset.imagenet.resize_size", "293"},
                         {"val_dataset.imagenet.crop_size", "256"},
                         {"optimizer.sgd.momentum", "0.9"},
                         {"optimizer.sgd.no_decay_norm_bias", "true"},
                         {"schedulers.triangular.t_peak", "2ep"},
                         {"schedulers.triangular.alpha_i", "1e-4"},
                         {"schedulers.triangular.alpha_f", "0"},
                         {"algorithms.blurpool.min_channels", "16"},
                         {"algorithms.blurpool.replace_maxpools", "false"},
                         {"algorithms.label_smoothing.smoothing", "0.1"},
                         {"algorithms.test_time_augmentation.level", "1"},
                         {"algorithms.progressive_resizing.initial_scale", "0.833333"},
                         {"algorithms.progressive_resizing.size_increment", "32"},
                         {"algorithms.progressive_resizing.delay_fraction",
                          std::to_string(static_cast<double>(small_until) / epochs)},
                         {"algorithms.progressive_resizing.finetune_fraction",
                          std::to_string(static_cast<double>(epochs - large_from) / epochs)}};
    has("ffcv/rn50" + end, also(ffcv, {{"train_batch_size", "4096"},
                                       {"optimizer.sgd.lr", "1.7"},
                                       {"optimizer.sgd.weight_decay", "1e-4"}}));
    has("rn18" + end, also(ffcv, {{"train_batch_size", "1024"},
                                  {"optimizer.sgd.lr", "0.5"},
                                  {"optimizer.sgd.weight_decay", "5e-5"}}));
  }

  const Values speedrun = {{"train_dataset.cifar10.transforms.border", "reflect"},
                           {"train_dataset.cifar10.transforms.flip", "0"},
                           {"algorithms.label_smoothing.smoothing", "0.2"},
                           {"algorithms.test_time_augmentation.level", "2"},
                           {"algorithms.whitening.eps", "5e-4"},
                           {"algorithms.whitening.train_bias", "3ep"},
                           {"save_interval", "0ep"}};
  has("airbench94", also(speedrun, {{"model.airbench.widths", "[64, 256, 256]"},
                                    {"train_dataset.cifar10.transforms.padding", "2"},
                                    {"model.airbench.logit_scale", "0.111111111"},
                                    {"train_batch_size", "1024"},
                                    {"max_duration", "476ba"},
                                    {"optimizer.sgd.lr", "1.5"},
                                    {"optimizer.sgd.momentum", "0.85"},
                                    {"optimizer.sgd.nesterov", "true"},
                                    {"optimizer.sgd.weight_decay", "1.330435e-3"},
                                    {"schedulers.triangular.t_peak", "0.23dur"},
                                    {"schedulers.triangular.alpha_i", "0.2"},
                                    {"schedulers.triangular.alpha_f", "0.07"},
                                    {"algorithms.bias_lr_scale.scale", "64"},
                                    {"algorithms.lookahead.schedule", "cubic"},
                                    {"algorithms.lookahead.interval", "5ba"},
                                    {"algorithms.lookahead.decay", "0.95"}}));
  has("speedruns/airbench94_muon.yaml",
      also(speedrun, {{"model.airbench.widths", "[64, 256, 256]"},
                      {"train_dataset.cifar10.transforms.padding", "2"},
                      {"model.airbench.logit_scale", "0.00390625"},
                      {"model.airbench.unit_head", "true"},
                      {"train_batch_size", "2000"},
                      {"max_duration", "200ba"},
                      {"optimizer.muon.lr", "0.24"},
                      {"optimizer.muon.momentum", "0.6"},
                      {"optimizer.muon.steps", "3"},
                      {"optimizer.muon.sgd_lr", "106"},
                      {"optimizer.muon.sgd_momentum", "0.85"},
                      {"optimizer.muon.sgd_weight_decay", "3.773585e-5"},
                      {"optimizer.muon.head_lr", "1340"},
                      {"schedulers.linear_decay.alpha_i", "1"},
                      {"schedulers.linear_decay.alpha_f", "0"}}));
  has("airbench95", also(speedrun, {{"model.airbench.widths", "[128, 384, 384]"},
                                    {"max_duration", "720ba"},
                                    {"optimizer.sgd.lr", "1.304348"},
                                    {"optimizer.sgd.weight_decay", "1.53e-3"},
                                    {"schedulers.triangular.t_peak", "0.23dur"}}));
  has("airbench96", also(speedrun, {{"model.airbench.widths", "[128, 384, 512]"},
                                    {"model.airbench.group_convs", "3"},
                                    {"model.airbench.norm_momentum", "0.1"},
                                    {"train_dataset.cifar10.transforms.padding", "4"},
                                    {"max_duration", "1776ba"},
                                    {"optimizer.sgd.lr", "1.173913"},
                                    {"optimizer.sgd.weight_decay", "1.333333e-3"},
                                    {"schedulers.triangular.t_peak", "0.1dur"},
                                    {"schedulers.triangular.alpha_f", "0"},
                                    {"algorithms.random_erasing.min_area", "0.140625"},
                                    {"algorithms.random_erasing.max_area", "0.140625"}}));
  has("hiverge_cifar10", {{"model.airbench.widths", "[64, 256, 256]"},
                          {"model.airbench.activation", "silu"},
                          {"model.airbench.norm_momentum", "0.4434"},
                          {"model.airbench.logit_scale", "0.00390625"},
                          {"train_dataset.cifar10.transforms.brightness", "0.1399"},
                          {"train_dataset.cifar10.transforms.contrast", "0.1308"},
                          {"train_batch_size", "1536"},
                          {"max_duration", "243ba"},
                          {"optimizer.muon.lr", "0.205"},
                          {"optimizer.muon.momentum", "0.655"},
                          {"optimizer.muon.coefficients", "[3.4576, -4.7391, 2.0843]"},
                          {"optimizer.muon.sgd_lr", "88.0128"},
                          {"optimizer.muon.sgd_momentum", "0.825"},
                          {"optimizer.muon.sgd_weight_decay", "1.818148e-5"},
                          {"optimizer.muon.head_lr", "831.744"},
                          {"algorithms.label_smoothing.smoothing", "0.09"},
                          {"algorithms.whitening.samples", "960"},
                          {"algorithms.whitening.train_bias", "7ba"},
                          {"algorithms.test_time_augmentation.share", "0.25"}});
  has("hlb_cifar10", {{"model.airbench.widths", "[64, 256, 512]"},
                      {"model.airbench.whitening_bias", "false"},
                      {"train_batch_size", "1024"},
                      {"max_duration", "581ba"},
                      {"optimizer.sgd.lr", "1.525"},
                      {"optimizer.sgd.weight_decay", "1.3374e-3"},
                      {"algorithms.whitening.eps", "1e-2"},
                      {"algorithms.bias_lr_scale.scale", "64"},
                      {"algorithms.label_smoothing.smoothing", "0.2"},
                      {"algorithms.cutmix.length", "0.1"},
                      {"algorithms.cutmix.start", "7ep"},
                      {"algorithms.lookahead.start", "2ep"},
                      {"algorithms.test_time_augmentation.level", "1"},
                      {"save_interval", "0ep"}});

  const Values reference = {{"train_batch_size", "1024"}, {"max_duration", "600ep"}};
  has("mobilenet_v3", also(reference, {{"model.mobilenet_v3.model_name", "mobilenet_v3_large"},
                                       {"optimizer.rmsprop.lr", "0.064"},
                                       {"optimizer.rmsprop.alpha", "0.9"},
                                       {"optimizer.rmsprop.eps", "0.0316"},
                                       {"schedulers.step.step_size", "2ep"},
                                       {"schedulers.step.gamma", "0.973"}}));
  has("convnext_tiny", also(reference, {{"train_dataset.imagenet.crop_size", "176"},
                                        {"optimizer.adamw.lr", "1e-3"},
                                        {"optimizer.adamw.weight_decay", "0.05"}}));
  const auto drops = [&](const std::string& name, const std::string& rate,
                         const std::string& distribution) {
    const std::string key = "algorithms.stochastic_depth.";
    has(name, {{key + "stochastic_method", "sample"},
               {key + "drop_rate", rate},
               {key + "drop_distribution", distribution},
               {key + "scale_by_keep", "true"}});
  };
  drops("convnext_tiny", "0.1", "linear_from_zero");
  drops("efficientnet_b0", "0.2", "linear_below");
  drops("a1", "0.05", "linear_from_zero");
  drops("a2", "0.05", "linear_from_zero");
  has("wide_resnet28_cifar10", {{"model.wide_resnet.depth", "28"},
                                {"model.wide_resnet.width", "10"},
                                {"schedulers.multistep.gamma", "0.2"}});
  for (const auto& [name, epochs, lr, size] :
       std::vector<std::tuple<std::string, std::string, std::string, std::string>>{
           {"a1", "600ep", "5e-3", "224"},
           {"a2", "300ep", "5e-3", "224"},
           {"a3", "100ep", "8e-3", "160"}})
    has(name, {{"max_duration", epochs},
               {"train_batch_size", "2048"},
               {"train_dataset.imagenet.crop_size", size},
               {"optimizer.lamb.lr", lr}});
}

TEST_CASE("the published commands run as printed") {
  const Words speedup = {"--algorithms",
                         "channels_last",
                         "blurpool",
                         "label_smoothing",
                         "progressive_resizing",
                         "--algorithms.progressive_resizing.size_increment",
                         "32",
                         "--algorithms.progressive_resizing.initial_scale",
                         "0.834",
                         "--algorithms.progressive_resizing.delay_fraction",
                         "0.727",
                         "--algorithms.progressive_resizing.finetune_fraction",
                         "0.136"};
  Words words = {"--max_duration",
                 "88ep",
                 "--train_dataset.imagenet.use_ffcv",
                 "true",
                 "--val_dataset.imagenet.use_ffcv",
                 "true",
                 "--precision",
                 "amp",
                 "--schedulers.cosine_decay_with_warmup.interval",
                 "step"};
  words.insert(words.end(), speedup.begin(), speedup.end());
  const Recipe recipe = resolved("composer/yamls/models/resnet50.yaml", words);
  CHECK(recipe.options.max_duration.str() == "88ep");
  CHECK(names(recipe.algorithms) ==
        Words{"channels_last", "blurpool", "label_smoothing", "progressive_resizing"});
  const std::string text = dump(recipe);
  CHECK(text.find("initial_scale: 0.834") != std::string::npos);
  CHECK(text.find("size_increment: 32") != std::string::npos);
  CHECK(text.find("use_ffcv: false") == std::string::npos);
  CHECK(names(resolved("resnet56_cifar10", {"--algorithms", "channels_last"}).algorithms) ==
        Words{"channels_last"});
  CHECK(dump(resolved("quickstart", {"--size_increment", "32"})).find("size_increment: 32") !=
        std::string::npos);
}

TEST_CASE("every hyperparameter is documented and its default obeys its own rules") {
  for (const CatalogBase* catalog : everything().catalogs())
    for (const std::string& name : catalog->names()) {
      INFO(catalog->kind() << ' ' << name);
      CHECK_FALSE(catalog->doc(name).empty());
      const auto component = catalog->find(name);
      const FieldSet fields = component->fields();
      for (const FieldDoc& doc : describe(fields)) CHECK_FALSE(doc.doc.empty());
      for (const Field& field : fields.fields) {
        if (field.required || !field.read) continue;
        INFO(field.name);
        Problems problems;
        field.read(field.write(), field.name, problems);
        CHECK(lines(problems) == Words{});
      }
    }
}

TEST_CASE("keys of old recipes that have no effect are taken") {
  for (const auto& [name, key, value] :
       {std::array{"mixup", "interpolate_loss", "true"},
        {"cutmix", "num_classes", "1000"},
        {"stochastic_depth", "target_layer_name", "ResNetBottleneck"},
        {"stochastic_depth", "use_same_gpu_seed", "true"},
        {"ema", "train_with_ema_weights", "false"},
        {"colout", "batch", "true"},
        {"colout", "resize_target", "auto"},
        {"swa", "anneal_strategy", "linear"},
        {"swa", "anneal_steps", "10"},
        {"swa", "swa_lr", "none"}}) {
    INFO(name << ' ' << key);
    const std::string option = std::string("--algorithms.") + name + "." + key;
    const auto recipe = resolved("resnet50", {"--algorithms", name, option, value});
    CHECK(recipe.algorithms.at(0)->build() != nullptr);
  }
}

TEST_CASE("groups are given on the command line, each as one word") {
  const auto groups = [](const Words& words) {
    Words all{"--optimizer", "adamw", "--adamw.lr", "0.1", "--optimizer.adamw.groups"};
    all.insert(all.end(), words.begin(), words.end());
    const auto text = dump(resolved("resnet50", all));
    const auto begin = text.find("groups: ", text.find("adamw:"));
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  const std::string both =
      "groups: [{pattern: \"fc.*\", lr_scale: 10.0, weight_decay: null}, "
      "{pattern: \"*.bias\", lr_scale: 1.0, weight_decay: 0.0}]";
  CHECK(groups({"{pattern: 'fc.*', lr_scale: 10}", "{pattern: '*.bias', weight_decay: 0}"}) ==
        both);
  CHECK(groups({"[{pattern: 'fc.*', lr_scale: 10}, {pattern: '*.bias', weight_decay: 0}]"}) ==
        both);
  CHECK(groups({"none"}) == "groups: []");
  for (const auto& [word, problem] : std::vector<std::pair<std::string, std::string>>{
           {"fc.*", "each word must be a map with the keys {pattern, lr_scale, weight_decay}"},
           {"'fc.*': 10", "not ''fc.*': 10'"},
           {"{pattern: *.bias}", "patterns in quotes"},
           {"[fc.weight]", "not '[fc.weight]'"},
           {"{lr_scale: 10}", "missing required key"},
           {"{pattern: fc.weight, lr: 10}", "--optimizer.adamw.groups: "},
           {"{pattern: fc.weight, lr_scale: -1}", "must be at least 0"}}) {
    INFO(word);
    CHECK_THROWS_WITH(groups({word}), Catch::Contains(problem));
  }
}

TEST_CASE("weights of classes do not put another loss in the place of a recipe's own") {
  const auto built = [](const Words& more) {
    Words words{
        "--resnet.model_name", "resnet18", "--num_classes", "2", "--class_weights", "1", "2"};
    words.insert(words.end(), more.begin(), more.end());
    const auto recipe = resolved("mild", words);
    check_class_weights(recipe.options, *build_model(recipe));
  };
  CHECK_THROWS_WITH(built({}), Catch::Contains("binary_cross_entropy_with_logits") &&
                                   Catch::Contains("loss: cross_entropy"));
  CHECK_NOTHROW(built({"--loss", "cross_entropy"}));
  CHECK_NOTHROW(built({"--loss_name", "soft_cross_entropy"}));
}

TEST_CASE("each speedrun and tuned recipe trains and evaluates", "[cli][slow]") {
  for (const std::string recipe :
       {"airbench94", "airbench94_muon", "airbench95", "airbench96", "hiverge_cifar10",
        "hlb_cifar10", "resnet20_14_epochs", "resnet18_64px"}) {
    const bool photographs = recipe == "resnet18_64px";
    const std::string set = photographs ? "imagenet" : "cifar10";
    const TemporaryFolder folder;
    const auto outcome =
        run(folder.path(),
            split("train -f " + recipe + " --train_dataset." + set +
                  ".use_synthetic true --val_dataset." + set +
                  ".use_synthetic true --train_batch_size 64 --eval_batch_size 32 "
                  "--train_subset_num_batches 3 --eval_subset_num_batches 1 --max_duration 3ba "
                  "--device cpu --progress_bar false --dataloader.num_workers 1 --run_name run" +
                  (photographs ? " --model.resnet.num_classes 1000" : "")));
    INFO(recipe << outcome.errors);
    REQUIRE(outcome.status == 0);
    std::ifstream file(folder / "runs/run/summary.json");
    const auto summary = nlohmann::json::parse(file);
    CHECK(summary.at("batches") == 3);
    for (const char* metric : {"loss/train", "metrics/eval/Accuracy"})
      CHECK(std::isfinite(summary.at("metrics").at(metric).get<double>()));
  }
}

}  // namespace composer::recipes_test
