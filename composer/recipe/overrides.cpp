#include "composer/recipe/overrides.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

#include "base/params/kinds.h"
#include "base/params/utf8.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "composer/recipe/automatic.h"

namespace composer {
namespace {

bool is_option(const std::string& word) {
  if (!word.starts_with('-') || word == "-inf" || word == "-nan") return false;
  return word.size() < 2 || !(std::isdigit(static_cast<unsigned char>(word[1])) || word[1] == '.');
}

void place(Value& value, const Origin& origin) {
  value.origin = origin;
  for (Value& item : value.items) place(item, origin);
  for (auto& entry : value.entries) {
    entry.origin = origin;
    place(entry.value, origin);
  }
}

bool is_map(const Value& value) { return value.kind == Value::Kind::map; }

/// The words as maps; nothing, and a problem, if a word is not a map.
std::optional<Value> maps_of(const Override& given, const RecipeKey& key, Problems& problems) {
  if (const Value whole = given.value(); whole.none() || is_automatic(whole)) return whole;
  Value all = Value::list();
  for (const std::string& word : given.words) {
    Problems wrong;
    const auto read = parse_yaml("word: " + word, "", wrong);
    const Value* const value = read && read->entries.size() == 1 ? read->find("word") : nullptr;
    const bool list = value != nullptr && value->kind == Value::Kind::list;
    if (wrong.empty() && list && std::ranges::all_of(value->items, is_map)) {
      all.items.insert(all.items.end(), value->items.begin(), value->items.end());
    } else if (wrong.empty() && value != nullptr && is_map(*value)) {
      all.items.push_back(*value);
    } else {
      problems.push_back(
          {given.origin, key.path,
           "each word must be a map with the keys " + key.item_keys +
               " as YAML has it, patterns in quotes: \"{pattern: 'fc.*', ...}\", not '" + word +
               "'" + (wrong.empty() ? "" : " (" + wrong[0].message + ")")});
      return std::nullopt;
    }
  }
  place(all, given.origin);
  return all;
}

constexpr std::string_view words_for_folders =
    " output output_dir out outdir out_dir save_dir save_path save_folder log_dir logdir work_dir "
    "default_root_dir checkpoint_dir ";

/// Words for one key. `key` is an ending of its path.
struct Entry {
  std::string_view words;  ///< separated by spaces, with a space at both ends
  std::string_view key;
  std::string_view example;        ///< the value in the suggestion if the word had none
  std::string_view unit = "";      ///< appended to a number
  std::string_view constant = "";  ///< the suggested value, whatever was given
  bool remote = false;             ///< only if the value is a remote path
};

// Of the entries with a word, the first one whose key the recipe has counts.
constexpr auto entries = std::to_array<Entry>({
    {" epochs num_epochs n_epochs max_epochs train_epochs total_epochs ", "max_duration", "10ep",
     "ep"},
    {" steps num_steps max_steps train_steps total_steps iters max_iters iterations "
     "max_iterations ",
     "max_duration", "1000ba", "ba"},
    {" batch_size batchsize batch bs train_bs per_device_train_batch_size ", "train_batch_size",
     "256"},
    {" val_batch_size validation_batch_size test_batch_size valid_batch_size eval_bs ",
     "eval_batch_size", "256"},
    {" learning_rate lr_max max_lr base_lr initial_lr lr0 ", "lr", "0.1"},
    {" wd decay l2 ", "weight_decay", "1e-4"},
    {" opt optim ", name(ChoiceKey::optimizer), "NAME"},
    {" sched scheduler lr_scheduler lr_schedule ", name(ChoiceKey::schedulers), "NAME"},
    {" warmup warmup_epochs lr_warmup_epochs warmup_t ", "t_warmup", "5ep", "ep"},
    {" warmup_steps warmup_iters ", "t_warmup", "500ba", "ba"},
    {" arch architecture net network backbone ", name(ChoiceKey::model), "NAME"},
    {" classes n_classes nb_classes n_class nclass ", "num_classes", "10"},
    {" workers n_workers nworkers threads num_threads dataloader_num_workers ", "num_workers", "4"},
    {" dataset ", name(ChoiceKey::train_dataset), "NAME"},
    {" data data_dir data_path data_folder dataset_dir dataset_path root root_dir train_dir "
     "train_data ",
     "datadir", "FOLDER"},
    {" val_dir val_data val_data_dir valid_dir ", "datadir", "FOLDER"},
    {" img_size image_size input_size imgsz img resolution crop train_crop_size ", "crop_size",
     "224"},
    {" img_size image_size input_size imgsz img resolution crop train_crop_size ", "size", "64"},
    {" img_size image_size input_size imgsz img resolution crop train_crop_size ", "height", "64"},
    {" pretrained weights checkpoint ckpt checkpoint_path ckpt_path init_checkpoint "
     "initial_checkpoint model_path ",
     "load_path", "FILE"},
    {" resume auto_resume ", "autoresume", "true", "", "true --run_name NAME"},
    {" resume_from resume_from_checkpoint ", "load_path", "CHECKPOINT"},
    {words_for_folders, "save_remote", "s3://bucket/prefix", "", "", true},
    {words_for_folders, "run_dir", "FOLDER"},
    {" experiment exp exp_name experiment_name name ", "run_name", "NAME"},
    {" gpus gpu ngpus num_gpus n_gpus ngpu gpu_id gpu_ids cuda use_cuda devices num_devices "
     "accelerator nproc_per_node ",
     "device", "gpu", "", "gpu"},
    {" no_cuda no_gpu cpu ", "device", "cpu", "", "cpu"},
    {" amp use_amp native_amp mixed_precision half ", "precision", "amp", "", "amp"},
    {" fp16 float16 ", "precision", "amp_fp16", "", "amp_fp16"},
    {" bfloat16 ", "precision", "amp_bf16", "", "amp_bf16"},
    {" clip_grad grad_clip clip_grad_norm gradient_clip_val max_grad_norm max_norm ",
     "grad_clip_norm", "1.0"},
    {" accumulate_grad_batches grad_accum_steps gradient_accumulation_steps accum_steps ",
     "grad_accum", "2"},
    {" log_every print_freq log_freq log_every_n_steps ", "log_interval", "50ba", "ba"},
    {" save_every save_freq save_period checkpoint_interval ", "save_interval", "1ep", "ep"},
    {" eval_every eval_freq val_interval check_val_every_n_epoch ", "eval_interval", "1ep", "ep"},
    {" manual_seed random_seed ", "seed", "17"},
});

/// The word as it is written in Entry::words.
std::string listed(const std::string& word) {
  std::string text(1, ' ');
  text.append(lower_case(word)).append(1, ' ');
  std::ranges::replace(text, '-', '_');
  return text;
}

std::string value_of(const Entry& entry, const std::vector<std::string>& values) {
  if (!entry.constant.empty()) return std::string(entry.constant);
  if (values.empty()) return std::string(entry.example);
  std::string all;
  for (const std::string& value : values) all.append(all.empty() ? "" : " ").append(value);
  if (std::isdigit(static_cast<unsigned char>(all.back()))) all += entry.unit;
  return all;
}

/// The paths that end with `key`; only the key itself if it is a whole path.
std::vector<std::string> ending_with(const std::vector<std::string>& paths,
                                     const std::string& key) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    if (path == key) return {key};
    if (has_suffix(path, key)) found.push_back(path);
  }
  if (found.size() == 1) found[0] = key;
  return found;
}

}  // namespace

Value Override::value() const {
  if (words.size() == 1) return Value::scalar(words[0], origin);
  Value list = Value::list(origin);
  for (const std::string& word : words) list.items.push_back(Value::scalar(word, origin));
  return list;
}

std::vector<Override> parse_overrides(const std::vector<std::string>& words, Problems& problems) {
  std::vector<Override> overrides;
  bool takes_words = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    Origin origin{.file = {}, .option = {}, .position = static_cast<int>(i) + 1};
    if (find_invalid_utf8(word) != std::string::npos) {
      if (takes_words) overrides.back().words.push_back(word);
      problems.push_back({takes_words ? overrides.back().origin : origin, "",
                          std::string("'").append(shown_utf8(word)) + "' is not UTF-8 text"});
      continue;
    }
    if (!is_option(word)) {
      if (takes_words)
        overrides.back().words.push_back(word);
      else
        problems.push_back({origin, "", "'" + word + "' belongs to no option"});
      continue;
    }
    const size_t equals = word.find('=');
    const std::string key = word.starts_with("--") ? word.substr(2, equals - 2) : "";
    takes_words = equals == std::string::npos;
    if (key.empty()) {
      problems.push_back({origin, "", "'" + word + "' is no option; write --key value"});
      takes_words = false;
      continue;
    }
    origin.option = key;
    overrides.push_back({key, {}, std::move(origin)});
    if (!takes_words) overrides.back().words.push_back(word.substr(equals + 1));
  }
  return overrides;
}

void prefer_evaluation(std::vector<const RecipeKey*>& meant) {
  const auto is_of = [](ChoiceKey choice) {
    return [beginning = path_of(choice, "")](const RecipeKey* key) {
      return key->path.starts_with(beginning);
    };
  };
  if (std::ranges::any_of(meant, is_of(ChoiceKey::val_dataset)))
    std::erase_if(meant, is_of(ChoiceKey::train_dataset));
}

void apply(const Override& given, const RecipeKey& key, Problems& problems) {
  const size_t count = given.words.size();
  if (count == 0 && !key.flag) {
    problems.push_back({given.origin, key.path,
                        key.list ? "needs a value; 'none' is an empty list" : "needs a value"});
    return;
  }
  if (count > 1 && !key.list) {
    std::string all;
    for (const std::string& word : given.words) all += " '" + word + "'";
    problems.push_back(
        {given.origin, key.path, "takes one value, not " + std::to_string(count) + ":" + all});
    return;
  }
  Value value = count == 0 ? Value::scalar("true", given.origin) : given.value();
  if (!key.item_keys.empty()) {
    auto maps = maps_of(given, key, problems);
    if (!maps) return;
    value = std::move(*maps);
  }
  Value* map = key.map;
  for (size_t i = 0;; ++i) {
    if (map->kind == Value::Kind::null) map->kind = Value::Kind::map;
    if (map->kind != Value::Kind::map) return;  // reading will say so
    if (i + 1 == key.below.size()) break;
    if (!map->find(key.below[i])) map->set(key.below[i], Value::map(given.origin), given.origin);
    map = map->find(key.below[i]);
  }
  map->set(key.below.back(), std::move(value), given.origin);
}

bool has_suffix(const std::string& path, const std::string& suffix) {
  return path == suffix || path.ends_with("." + suffix);
}

std::vector<std::string> endings(const std::vector<std::string>& paths, const std::string& word) {
  const auto parts = std::ranges::count(word, '.') + 1;
  std::set<std::string> found;
  for (const std::string& path : paths) {
    size_t start = path.size();
    long count = 0;
    while (start != std::string::npos && count < parts) {
      start = start == 0 ? std::string::npos : path.rfind('.', start - 1);
      ++count;
    }
    if (count == parts) found.insert(start == std::string::npos ? path : path.substr(start + 1));
  }
  return {found.begin(), found.end()};
}

std::string ranks_meant_by(const std::string& word, const std::vector<std::string>& values) {
  constexpr std::string_view words =
      " gpus ngpus num_gpus n_gpus ngpu devices num_devices nproc_per_node nproc num_processes "
      "num_procs gpus_per_node ";
  if (words.find(listed(word)) == std::string_view::npos || values.size() != 1) return "";
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const bool several = std::ranges::all_of(values[0], is_digit) && values[0] != "0" &&
                       values[0] != "1" && !values[0].empty();
  return several ? "composer -n " + values[0] + " ..." : "";
}

Meant meant_by(const std::string& word, const std::vector<std::string>& values,
               const std::vector<std::string>& paths) {
  const auto known = listed(word);
  Meant meant{ranks_meant_by(word, values), ""};
  if (!meant.option.empty()) return meant;
  for (const Entry& entry : entries) {
    if (entry.words.find(known) == std::string_view::npos) continue;
    if (entry.remote && (values.empty() || !is_remote(values[0]))) continue;
    const std::string key(entry.key);
    if (meant.key.empty()) meant.key = key;
    for (const std::string& path : ending_with(paths, key))
      meant.option.append(meant.option.empty() ? "--" : " --")
          .append(path)
          .append(1, ' ')
          .append(value_of(entry, values));
    if (!meant.option.empty()) break;
  }
  return meant;
}

}  // namespace composer
