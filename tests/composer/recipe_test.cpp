#include "composer/recipe/recipe.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "composer/recipe/embedded_recipes.h"
#include "tests/composer/fake_components.h"
#include "tests/temporary_folder.h"

namespace composer::recipe_test {

using namespace composer::test;

namespace {

std::vector<std::string> names(const auto& components) {
  std::vector<std::string> names;
  for (const auto& component : components) names.push_back(component->name());
  return names;
}

template <class T>
typename T::Params params(const auto& component) {
  return std::static_pointer_cast<T>(component->build())->params;
}

}  // namespace

TEST_CASE("a recipe chooses components and sets options") {
  const Recipe recipe = resolved(base);
  CHECK(recipe.model->name() == "net");
  CHECK(params<Net>(recipe.model).depth == 50);
  CHECK(params<Net>(recipe.model).initializers == Words{"kaiming", "ones"});
  CHECK(recipe.val_dataset->name() == "pictures");
  CHECK(recipe.optimizer->name() == "decoupled_sgdw");
  CHECK(names(recipe.algorithms) == Words{"label_smoothing", "channels_last"});
  CHECK(names(recipe.callbacks) == Words{"speed_monitor"});
  CHECK(recipe.loggers.empty());
  CHECK(recipe.options.train_batch_size == 32);
  CHECK(recipe.options.max_duration.str() == "9ep");
  CHECK(recipe.options.eval_interval.str() == "1ep");
  CHECK(recipe.options.seed == 17);
  CHECK(recipe.options.dataloader.num_workers == 8);
}

TEST_CASE("a component knows the events it subscribes to") {
  const Recipe recipe = resolved(base);
  const EventSet events = recipe.algorithms[0]->subscriptions();
  CHECK(events.count() == 2);
  CHECK(events.test(static_cast<size_t>(Event::before_loss)));
  CHECK(recipe.algorithms[1]->subscriptions().none());
  CHECK(recipe.callbacks[0]->subscriptions().test(static_cast<size_t>(Event::batch_end)));
}

TEST_CASE("kinds and choices have the words of recipes and of composer list") {
  const Registry registry;
  Lines kinds, keys;
  for (const auto* catalog : registry.catalogs())
    kinds.push_back(catalog->kind() + " " + catalog->plural());
  CHECK(kinds == Lines{"model models", "dataset datasets", "optimizer optimizers",
                       "scheduler schedulers", "algorithm algorithms", "callback callbacks",
                       "logger loggers"});
  Recipe recipe;
  for_each_choice(recipe, [&]<class T>(ChoiceKey key, T&) {
    const bool several = requires(T chosen) { chosen.size(); };
    CHECK(choice_facts[keys.size()].several == several);
    keys.emplace_back(name(key));
  });
  CHECK(keys == Lines{"model", "train_dataset", "val_dataset", "optimizer", "schedulers",
                      "algorithms", "callbacks", "loggers"});
  CHECK(path_of(ChoiceKey::algorithms, "ema") == "algorithms.ema");
}

TEST_CASE("a name is registered once") {
  Registry registry;
  registry.algorithms.add<Smoothing>("a");
  CHECK_THROWS_AS(registry.algorithms.add<Mixing>("a"), std::logic_error);
  CHECK_THROWS_AS(registry.algorithms.find("b"), std::logic_error);
  CHECK(known().algorithms.doc("label_smoothing") == "softer labels");
  CHECK(known().algorithms.names() ==
        Words{"channels_last", "label_smoothing", "mixup", "progressive_resizing"});
}

TEST_CASE("components are given by name, as a list, or with parameters") {
  CHECK(resolved(with("  net:\n    depth: 50\n    initializers: [kaiming, ones]\n", " other_net\n"))
            .model->name() == "other_net");
  const std::string list =
      with("  label_smoothing:\n    smoothing: 0.2\n  channels_last:\n",
           "- channels_last\n- mixup: {alpha: 1}\n- label_smoothing:\n    smoothing: 0.3\n");
  const Recipe recipe = resolved(list);
  CHECK(names(recipe.algorithms) == Words{"channels_last", "mixup", "label_smoothing"});
  CHECK(params<Smoothing>(recipe.algorithms[2]).smoothing == 0.3);
  CHECK(resolved(with("callbacks: [speed_monitor]", "callbacks: none")).callbacks.empty());
  CHECK(resolved(with("callbacks: [speed_monitor]", "callbacks:")).callbacks.empty());
  CHECK(names(resolved(with("callbacks: [speed_monitor]", "callbacks: speed_monitor")).callbacks) ==
        Words{"speed_monitor"});
}

TEST_CASE("overrides win over the recipe, by full path or unique suffix") {
  const Recipe recipe = resolved(base, {"--model.net.depth=34",
                                        "--max_duration",
                                        "88ep",
                                        "--smoothing",
                                        "0.4",
                                        "--net.initializers",
                                        "ones",
                                        "zeros",
                                        "--num_workers",
                                        "3",
                                        "--deterministic_mode",
                                        "--val_dataset.pictures.datadir",
                                        "/v",
                                        "--train_dataset.pictures.samples",
                                        "none",
                                        "--dataloader.pin_memory",
                                        "f",
                                        "--milestones",
                                        "3ep",
                                        "500ba",
                                        "--grad_clip_norm",
                                        "-1"});
  CHECK(params<Net>(recipe.model).depth == 34);
  CHECK(params<Net>(recipe.model).initializers == Words{"ones", "zeros"});
  CHECK(params<Smoothing>(recipe.algorithms[0]).smoothing == 0.4);
  CHECK(recipe.options.max_duration.str() == "88ep");
  CHECK(recipe.options.dataloader.num_workers == 3);
  CHECK_FALSE(recipe.options.dataloader.pin_memory);
  CHECK(recipe.options.deterministic_mode);
  CHECK(recipe.options.grad_clip_norm == -1);
}

TEST_CASE("a list override replaces the list and keeps the parameters of names in both") {
  const Recipe recipe =
      resolved(base, {"--algorithms", "channels_last", "progressive_resizing", "label_smoothing",
                      "--algorithms.progressive_resizing.size_increment", "32", "--shift", "-.5"});
  CHECK(names(recipe.algorithms) ==
        Words{"channels_last", "progressive_resizing", "label_smoothing"});
  CHECK(params<Smoothing>(recipe.algorithms[2]).smoothing == 0.2);
  CHECK(params<Resizing>(recipe.algorithms[1]).size_increment == 32);
  CHECK(params<Resizing>(recipe.algorithms[1]).shift == -0.5);
  CHECK(resolved(base, {"--algorithms", "none"}).algorithms.empty());
  CHECK(resolved(base, {"--algorithms="}).algorithms.empty());
  CHECK(params<Net>(resolved(base, {"--initializers", "none"}).model).initializers.empty());
}

TEST_CASE("a component is chosen by name on the command line") {
  CHECK(resolved(base, {"--optimizer", "adamw", "--lr", "2e-3"}).optimizer->name() == "adamw");
  CHECK(params<Net>(resolved(base, {"--model", "net"}).model).depth == 50);
  CHECK(params<Net>(resolved(base, {"--model=other_net"}).model).depth == 18);
  for (const std::string nothing : {"none", "None", "null", "~"}) {
    CAPTURE(nothing);
    CHECK(resolved(base, {"--val_dataset", nothing}).val_dataset == nullptr);
    CHECK(resolved(base, {"--run_dir", nothing}).options.run_dir.empty());
  }
}

TEST_CASE("without an optimizer there is Composer's") {
  const Recipe recipe = resolved(with("optimizer:\n  decoupled_sgdw:\n    lr: 0.5\n", ""));
  CHECK(recipe.optimizer->name() == "decoupled_sgdw");
  CHECK(dump(recipe).find("    lr: 0.1\n") != std::string::npos);
}

TEST_CASE("a dump resolves to the same recipe") {
  const Words words = {"--run_name",      "a: b",         "--load_path",
                       "/x y/#1",         "--algorithms", "mixup",
                       "label_smoothing", "--alpha",      "0.3"};
  const std::string text = dump(resolved(base, words));
  CHECK(dump(resolved(text)) == text);
  CHECK(resolved(text).options.run_name == "a: b");
  CHECK(names(resolved(text).algorithms) == Words{"mixup", "label_smoothing"});
  CHECK(text.find("alpha: 0.3") != std::string::npos);
  const std::string bare = dump(resolved(base, {"--val_dataset", "none", "--algorithms", "none"}));
  CHECK(dump(resolved(bare)) == bare);
  CHECK(bare.find("run_name") == std::string::npos);
  CHECK(bare.find("val_dataset") == std::string::npos);
}

TEST_CASE("a recipe made in C++ is checked with the secrets of its addresses, and dumped without") {
  const std::string address = "https://me:secret@host/x?sig=1";
  Recipe recipe = resolved(with("datadir: /data/train", "datadir: '" + address + "'"));
  const auto train = [](const Recipe& of) {
    return to_yaml(write_fields(of.train_dataset->fields()));
  };
  CHECK(train(checked(recipe, known())).find(address) != std::string::npos);
  CHECK(dump(recipe).find("secret") == std::string::npos);
  CHECK(dump_with_absolute_paths(recipe).find("secret") == std::string::npos);
  CHECK(dump_with_absolute_paths(recipe, Secrets::kept).find(address) != std::string::npos);
  recipe.options.train_batch_size = 0;
  CHECK_THROWS_WITH(checked(recipe, known()),
                    Catch::Contains("the recipe") && Catch::Contains("train_batch_size: must be"));
}

TEST_CASE("recipes are found by path and by name") {
  const RecipeFile resnet = find_recipe("resnet50");
  CHECK(resnet.name == "yamls/models/resnet50.yaml");
  for (const char* name : {"models/resnet50.yaml", "composer/yamls/models/resnet50.yaml",
                           "yamls/models/resnet50", "resnet50.yaml", "./resnet50.yaml"})
    CHECK(find_recipe(name).text == resnet.text);
  CHECK(find_recipe("quickstart").name == "yamls/quickstart.yaml");
  CHECK_THROWS_WITH(find_recipe("resnet5O"),
                    "resnet5O: no such file, and no recipe of that name; did you mean 'resnet50'?");
  CHECK_THROWS_WITH(find_recipe("my/resnet50.yaml"), Catch::Contains("did you mean 'resnet50'?"));
  CHECK_THROWS_WITH(find_recipe("nothing_like_it"),
                    Catch::Contains("the recipes are quickstart, classify_mnist"));

  const TemporaryFolder folder;
  const std::string path = (folder / "mine.yaml").string();
  std::ofstream(path) << base;
  CHECK(find_recipe(path).text == base);
  CHECK(find_recipe(path).name == path);
  CHECK_THROWS_WITH(find_recipe(folder.path().string()),
                    folder.path().string() + ": is a folder; give a recipe in it");
  std::ofstream(folder / "hparams.yaml") << base;
  CHECK_THROWS_WITH(find_recipe(folder.path().string()),
                    Catch::Contains("did you mean " + (folder / "hparams.yaml").string() + "?"));
  std::ofstream(path) << std::string(100, '\0');
  CHECK_THROWS_WITH(find_recipe(path), path + ": is not a recipe: not a text file");
}

TEST_CASE("nothing in the working directory hides a recipe of the program") {
  namespace fs = std::filesystem;
  const fs::path back = fs::current_path();
  const TemporaryFolder folder;
  const std::string resnet = find_recipe("resnet50").text;
  fs::current_path(folder.path());
  fs::create_directories("quickstart");
  fs::create_directories("resnet34.yaml");
  for (const char* file : {"resnet50", "mine", "resnet18.yaml"}) std::ofstream(file) << "seed: 1";
  CHECK(find_recipe("quickstart").name == "yamls/quickstart.yaml");
  CHECK(find_recipe("resnet50").text == resnet);
  for (const char* path : {"./resnet50", "mine", "resnet18.yaml"})
    CHECK(find_recipe(path).text == "seed: 1");
  for (const std::string path : {"./quickstart", "quickstart/", "resnet34.yaml"})
    CHECK_THROWS_WITH(find_recipe(path), path + ": is a folder; give a recipe in it");
  fs::current_path(back);
}

TEST_CASE("every file in yamls/ is part of the program, as it is") {
  const std::filesystem::path folder = std::filesystem::path(SOURCE_DIR) / "yamls";
  std::set<std::string> files, embedded;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".yaml")
      files.insert(std::filesystem::relative(entry.path(), folder).replace_extension().string());
  for (const EmbeddedRecipe& recipe : embedded_recipes()) {
    embedded.insert(std::string(recipe.path));
    std::ifstream stream(folder / (std::string(recipe.path) + ".yaml"));
    CHECK(recipe.text == std::string(std::istreambuf_iterator<char>(stream), {}));
  }
  CHECK(files == embedded);
  for (const RecipeDoc& doc : list_recipes()) CHECK(doc.doc.size() > 20);
}

TEST_CASE("a recipe logs for TensorBoard unless it or the command line names loggers", "[recipe]") {
  Registry registry = known();
  registry.loggers.add<FileLog>("tensorboard");
  const auto loggers = [&](const std::string& addition, const Words& words = {}) {
    Words names;
    for (const auto& logger : resolve({"r.yaml", base + addition}, words, registry).loggers)
      names.push_back(logger->name());
    return names;
  };
  CHECK(loggers("") == Words{"tensorboard"});
  CHECK(loggers("loggers: [file]\n") == Words{"file"});
  CHECK(loggers("loggers: []\n").empty());
  CHECK(loggers("", {"--loggers", "none"}).empty());
  CHECK(loggers("", {"--loggers", "file", "tensorboard"}) == Words{"file", "tensorboard"});
}

}  // namespace composer::recipe_test
