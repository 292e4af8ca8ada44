// The recipes that come with the program, resolved with all of its components.
#include <catch2/catch.hpp>

#include "algorithms/all.h"
#include "composer/builtin.h"
#include "composer/error.h"
#include "composer/recipe/recipe.h"
#include "data/all.h"
#include "models/all.h"

using namespace composer;
using Words = std::vector<std::string>;

namespace {

const Registry& everything() {
  static Registry registry;
  static const bool filled = [] {
    add_builtin_core(registry);
    add_builtin_algorithms(registry);
    add_builtin_models(registry);
    add_builtin_datasets(registry);
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
