#include "composer/recipe/automatic.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "base/name_pattern.h"

namespace composer {
namespace {

constexpr std::array keys{
    AutomaticKey{"model.*.num_classes", "", "as many as the data have classes, or values"},
    AutomaticKey{"split.val", "0.2",
                 "0 where the data have a part for evaluation of their own (`val/`), which is then "
                 "evaluated on; else 0.2, and each class needs two images"},
    AutomaticKey{"train_dataset.*.crop_size", "",
                 "the largest of 64, 96, 128, 160, 192 and 224 that the shorter side of the middle "
                 "one of some images reaches; 64 for smaller images"},
    AutomaticKey{"train_batch_size", "32",
                 "32, halved to 16 or 8 while an epoch has fewer than eight batches"},
    AutomaticKey{"max_duration", "10ep",
                 "with `load_path` as many epochs as have 300 batches, 10 to 50; without it four "
                 "times as many"},
    AutomaticKey{"load_weights_only", "", "true with `load_path`"},
    AutomaticKey{"optimizer.*.lr", "1e-4",
                 "1e-3 for kinds of Adam and 0.1 for kinds of SGD; with `load_path` 3e-4 and 0.01, "
                 "but 1e-3 for kinds of Adam where its weights tell fewer than 100 classes apart"},
    AutomaticKey{"optimizer.*.layer_decay", "",
                 "0.8 with `load_path`, none where its weights tell fewer than 100 classes apart "
                 "and without it"},
    AutomaticKey{"optimizer.*.groups", "",
                 "with `load_path` ten times the learning rate for the last layer; none without "
                 "it"},
    AutomaticKey{"load_ignore", "",
                 "the last layer, where in `load_path` it is for other classes, has another shape "
                 "or is missing"},
};

/// Whether `path` is `key`, whose `*` stands for one part.
bool is_key(std::string_view path, std::string_view key) {
  const auto parts = [](std::string_view text) { return std::ranges::count(text, '.'); };
  return parts(path) == parts(key) && fits(std::string(path), std::string(key));
}

}  // namespace

std::span<const AutomaticKey> automatic_keys() { return keys; }

const AutomaticKey* find_automatic(std::string_view path) {
  const auto* const found =
      std::ranges::find_if(keys, [&](const auto& key) { return is_key(path, key.key); });
  return found == keys.end() ? nullptr : found;
}

bool is_automatic(const Value& value) {
  return value.kind == Value::Kind::scalar && !value.quoted && value.text == "auto";
}

Value* find_path(Value& root, std::string_view path) {
  Value* value = &root;
  while (value != nullptr && !path.empty()) {
    const auto end = std::min(path.find('.'), path.size());
    value = value->find(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return value;
}

void set_path(Value& root, std::string_view path, Value value) {
  const auto dot = path.rfind('.');
  const bool nested = dot != std::string_view::npos;
  Value* const map = nested ? find_path(root, path.substr(0, dot)) : &root;
  if (map == nullptr) throw std::logic_error("no key " + std::string(path));
  map->set(std::string(nested ? path.substr(dot + 1) : path), std::move(value));
}

}  // namespace composer
