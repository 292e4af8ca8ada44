#include "composer/recipe/foreign_words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "base/params/kinds.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "composer/recipe/overrides.h"

namespace composer {
namespace {

constexpr std::string_view words_for_folders =
    " output output_dir out outdir out_dir save_dir save_path save_folder log_dir logdir work_dir "
    "default_root_dir checkpoint_dir ";

/// Words that mean one key. `key` is an ending of its path.
struct Entry {
  std::string_view words;  ///< between spaces
  std::string_view key;
  std::string_view example;        ///< for a word that came without a value
  std::string_view unit = "";      ///< put behind a number
  std::string_view constant = "";  ///< the value, whatever was given
  bool remote = false;             ///< for a path of a store alone
};

// The first entry of a word whose key the recipe has counts.
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

/// As it stands among the words of an entry.
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

/// The paths that end with `key`; the key itself where it is one.
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
