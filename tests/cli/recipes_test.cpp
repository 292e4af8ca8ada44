// The recipes that come with the program, resolved with all of its components.
#include <array>
#include <catch2/catch.hpp>

#include "composer/error.h"
#include "composer/recipe/recipe.h"
#include "everything.h"

using namespace composer;
using Words = std::vector<std::string>;

namespace {

const Registry& everything() {
  static Registry registry;
  static const bool filled = [] {
    add_everything(registry);
    return true;
  }();
  (void)filled;
  return registry;
}

Recipe resolved(const std::string& name, const Words& words = {}) {
  return resolve(find_recipe(name), words, everything());
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
  const auto has = [](const std::string& name, const Words& lines) {
    const std::string text = dump(resolved(name));
    for (const auto& line : lines) {
      INFO(name << ": " << line);
      CHECK(text.find(line) != std::string::npos);
    }
  };
  has("mild", {"max_duration: 36ep", "smoothing: 0.08", "initial_scale: 0.5", "half_life: 100ba"});
  has("resnet50/medium", {"max_duration: 135ep", "interval: 10", "rho: 0.5", "alpha: 0.2"});
  has("hot", {"max_duration: 270ep", "interval: 5", "alpha: 0.25", "depth: 1", "p_row: 0.05",
              "stochastic_method: sample", "loss_name: binary_cross_entropy_with_logits"});
  for (const std::string epochs : {"16", "24", "32", "40", "56", "88"}) {
    const std::string end = "_" + epochs + "_epochs", duration = "max_duration: " + epochs + "ep";
    has("ffcv/rn50" + end, {duration, "lr: 1.7", "train_batch_size: 4096", "t_peak: 2ep"});
    has("rn18" + end, {duration, "lr: 0.5", "train_batch_size: 1024", "crop_size: 256"});
  }
  has("airbench94", {"max_duration: 476ba", "lr: 1.5", "t_peak: 0.23dur", "scale: 64.0"});
  has("speedruns/airbench94_muon.yaml", {"max_duration: 200ba", "train_batch_size: 2000"});
  has("hlb_cifar10", {"widths: [64, 256, 512]", "max_duration: 581ba", "start: 2ep"});
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
        {"stochastic_depth", "use_same_gpu_seed", "true"}}) {
    INFO(name << ' ' << key);
    const std::string option = std::string("--algorithms.") + name + "." + key;
    const auto recipe = resolved("resnet50", {"--algorithms", name, option, value});
    CHECK(recipe.algorithms.at(0)->build() != nullptr);
  }
}
