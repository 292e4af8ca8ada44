#include <catch2/catch.hpp>

#include "tests/composer/fake_components.h"

namespace composer::recipe_problems_test {

using namespace composer::test;

namespace {

std::string joined(const Lines& lines) {
  std::string all;
  for (const std::string& line : lines) all += (all.empty() ? "" : "\n") + line;
  return all;
}

}  // namespace

TEST_CASE("every problem of a recipe is one line that says where, what and what would be right") {
  struct Case {
    std::string from, to, expected;
  };
  const std::string A = "algorithms.label_smoothing.";
  const Case cases[] = {
      {"    smoothing", "    smothing",
       "r.yaml:22:5: " + A + "smothing: unknown key; did you mean 'smoothing'?"},
      {"smoothing: 0.2", "smoothing: 1.2",
       "r.yaml:22:16: " + A + "smoothing: must be in [0, 1], not 1.2"},
      {"smoothing: 0.2", "smoothing: high",
       "r.yaml:22:16: " + A + "smoothing: must be a number, not 'high'"},
      {"smoothing: 0.2",
       "smoothing:", "r.yaml:22:5: " + A + "smoothing: must be a number, not nothing"},
      {"  label_smoothing:", "  label_smothing:",
       "r.yaml:21:3: algorithms: unknown algorithm 'label_smothing'; did you mean "
       "'label_smoothing'?"},
      {"  channels_last:", "  zzz:",
       "r.yaml:23:3: algorithms: unknown algorithm 'zzz'; one of: channels_last, label_smoothing, "
       "mixup, progressive_resizing"},
      {"  channels_last:", "  channels_last: true",
       "r.yaml:23:18: algorithms.channels_last: must be a map of keys, not 'true'"},
      {"  channels_last:", "  channels_last: {fast: true}",
       "r.yaml:23:19: algorithms.channels_last.fast: unknown key"},
      {"  channels_last:", "  label_smoothing:",
       "r.yaml:23:3: algorithms.label_smoothing: duplicate key, first on line 21"},
      {"[speed_monitor]", "[speed_monitor, speed_monitor]",
       "r.yaml:24:28: callbacks: 'speed_monitor' is named twice"},
      {"[speed_monitor]", "[[speed_monitor]]",
       "r.yaml:24:13: callbacks: each item must be a name, or a map of one name to its parameters"},
      {"[speed_monitor]", "[speed_monitr]",
       "r.yaml:24:13: callbacks: unknown callback 'speed_monitr'; did you mean 'speed_monitor'?"},
      {"max_duration", "max_duraton",
       "r.yaml: max_duration: missing required key\nr.yaml:13:1: max_duraton: unknown key; did you "
       "mean 'max_duration'?"},
      {"max_duration: 9ep\n", "", "r.yaml: max_duration: missing required key"},
      {"max_duration: 9ep", "max_duration:", "r.yaml:13:1: max_duration: missing required key"},
      {"max_duration: 9ep", "max_duration: 0ep",
       "r.yaml:13:15: max_duration: must be above 0, not 0ep"},
      {"max_duration: 9ep", "max_duration: 1dur",
       "r.yaml:13:15: max_duration: must be in ep, ba, sp or sec, not 1dur"},
      {"max_duration: 9ep", "max_duration: 9eps",
       "r.yaml:13:15: max_duration: the time '9eps' has the unknown unit 'eps'; units are ep, ba, "
       "sp, sec and dur"},
      {"train_batch_size: 32\n", "", "r.yaml: train_batch_size: missing required key"},
      {"train_batch_size: 32", "train_batch_size: 0",
       "r.yaml:11:19: train_batch_size: must be at least 1, not 0"},
      {"train_batch_size: 32", "train_batch_size: 32.5",
       "r.yaml:11:19: train_batch_size: must be a whole number, not '32.5'"},
      {"eval_batch_size: 64\n", "",
       "r.yaml: eval_batch_size: missing required key: val_dataset needs it"},
      {"eval_batch_size: 64", "eval_batch_size:",
       "r.yaml:12:1: eval_batch_size: missing required key: val_dataset needs it"},
      {"model:\n  net:\n    depth: 50\n    initializers: [kaiming, ones]\n", "",
       "r.yaml: model: missing required key"},
      {"model:\n", "model:\n  other_net:\n",
       "r.yaml:2:3: model: must be one model, not 2 (other_net, net)"},
      {"  net:", "  nett:", "r.yaml:2:3: model: unknown model 'nett'; did you mean 'net'?"},
      {"[kaiming, ones]", "[kaiming, onse]",
       "r.yaml:4:29: model.net.initializers: must be kaiming, ones or zeros, not 'onse'; did you "
       "mean 'ones'?"},
      {"    t_warmup: 1ep", "    milestones: [1ep]",
       "r.yaml:18:3: schedulers.cosine_decay.t_warmup: missing required key"},
      {"  decoupled_sgdw:", "  sgdw:",
       "r.yaml:15:3: optimizer: unknown optimizer 'sgdw'; did you mean 'decoupled_sgdw'?"},
      {"    lr: 0.5", "    learning_rate: 0.5",
       "r.yaml:15:3: optimizer.decoupled_sgdw.lr: missing required key\nr.yaml:16:5: "
       "optimizer.decoupled_sgdw.learning_rate: unknown key; one of: lr, momentum, weight_decay, "
       "dampening, nesterov, no_decay_norm_bias, groups, layer_decay"},
      {"callbacks: [speed_monitor]", "seed: -1",
       "r.yaml:24:7: seed: must be in [0, 4294967295], not -1"},
      {"callbacks: [speed_monitor]", "seed: 1\nseed: 2",
       "r.yaml:25:1: seed: duplicate key, first on line 24"},
      {"callbacks: [speed_monitor]", "precision: fp64",
       "r.yaml:24:12: precision: must be fp32, tf32, amp, amp_fp16, amp_bf16 or bf16, not 'fp64'"},
      {"callbacks: [speed_monitor]", "grad_accum: many",
       "r.yaml:24:13: grad_accum: must be a whole number, not 'many'"},
      {"callbacks: [speed_monitor]", "grad_accum: auto\nspatial_ranks: 2",
       "r.yaml:24:13: grad_accum: auto cannot be with spatial_ranks, whose ranks exchange rows in "
       "every pass and would wait for the one without memory; give a number"},
      {"callbacks: [speed_monitor]", "autoresume: true",
       "r.yaml:24:13: autoresume: needs run_name, the run to go on with"},
      {"callbacks: [speed_monitor]", "autoresume: true\nrun_name: a\nrun_dir: none",
       "r.yaml:24:13: autoresume: needs run_dir, where the run to go on with is"},
      {"callbacks: [speed_monitor]", "run_dir: s3://bucket/runs",
       "r.yaml:24:10: run_dir: must be a folder of this machine, not 's3://bucket/runs'; "
       "save_remote: s3://bucket/prefix copies checkpoints to a store"},
      {"callbacks: [speed_monitor]", "run_dir: https://me:word@host/runs?sig=x",
       "r.yaml:24:10: run_dir: must be a folder of this machine, not 'https://***@host/runs?***'; "
       "save_remote: s3://bucket/prefix copies checkpoints to a store"},
      {"callbacks: [speed_monitor]", "grad_accum: 33",
       "r.yaml:24:13: grad_accum: must be at most train_batch_size (32), not 33"},
      {"train_batch_size: 32", "grad_accum: 2", "r.yaml: train_batch_size: missing required key"},
      {"callbacks: [speed_monitor]", "load_weights_only: yes\nseed: x",
       "r.yaml:24:20: load_weights_only: needs load_path\nr.yaml:25:7: seed: must be a whole "
       "number, not 'x'"},
      {"depth: 50", "depth: \"\xFF\"", "r.yaml:3:13: not UTF-8 text"},
      {"callbacks: [speed_monitor]", "load_weights_only: yes",
       "r.yaml:24:20: load_weights_only: needs load_path"},
      {"callbacks: [speed_monitor]", "run_name: \"" + std::string(256, 'a') + '"',
       "r.yaml:24:11: run_name: is longer than the name of a folder may be (255 bytes)"},
      {"callbacks: [speed_monitor]", "run_name: a/b",
       "r.yaml:24:11: run_name: must be the name of a folder, not the path 'a/b'"},
      {"callbacks: [speed_monitor]", "log_interval: 5sec",
       "r.yaml:24:15: log_interval: must be in ep, ba or sp, not 5sec"},
      {"callbacks: [speed_monitor]", "eval_interval: 2dur",
       "r.yaml:24:16: eval_interval: must be at most 1dur, the whole run, not 2dur"},
      {"callbacks: [speed_monitor]", "dataloader: {num_worker: 2}",
       "r.yaml:24:14: dataloader.num_worker: unknown key; did you mean 'num_workers'?"},
      {"callbacks: [speed_monitor]", "algoritms: [mixup]",
       "r.yaml:24:1: algoritms: unknown key; did you mean 'algorithms'?"},
      {"callbacks: [speed_monitor]", "callbacks: &x [*x]",
       "r.yaml:24:16: callbacks: an alias inside what it stands for: a cycle"},
      {"  channels_last:", "  progressive_resizing: {shift: 1}",
       "r.yaml:23:33: algorithms.progressive_resizing.shift: must not pass initial_scale"},
  };
  for (const Case& c : cases) {
    CHECK(joined(problems_of(with(c.from, c.to))) == c.expected);
  }
}

TEST_CASE("every problem of an override is one line that says what would be right") {
  struct Case {
    Words words;
    std::string expected;
  };
  const std::string A = "--algorithms.label_smoothing.";
  const Case cases[] = {
      {{A + "smothing", "0.1"}, A + "smothing: unknown key; did you mean 'smoothing'?"},
      {{A + "smoothing", "2"}, A + "smoothing: must be in [0, 1], not 2"},
      {{"--smoothing", "2"},
       "--smoothing: algorithms.label_smoothing.smoothing: must be in [0, 1], not 2"},
      {{"--smoothing"}, "--smoothing: algorithms.label_smoothing.smoothing: needs a value"},
      {{"--smoothing", "0.1", "0.2"},
       "--smoothing: algorithms.label_smoothing.smoothing: takes one value, not 2: '0.1' '0.2'"},
      {{"--smoothing", "0.1", A + "smoothing", "0.2"}, A + "smoothing: given twice"},
      {{"--seed=1", "--seed=2"}, "--seed: given twice"},
      {{"--seed="}, "--seed: must be a whole number, not ''"},
      {{"--seed=1", "2"}, "'2' belongs to no option"},
      {{"stray", "--seed", "1"}, "'stray' belongs to no option"},
      {{"-f", "x"}, "'-f' is no option; write --key value\n'x' belongs to no option"},
      {{"--", "--seed", "1"}, "'--' is no option; write --key value"},
      {{"--datadir", "/d"},
       "--datadir: ambiguous: one of --train_dataset.pictures.datadir, "
       "--val_dataset.pictures.datadir"},
      {{"--pictures.is_train", "f"},
       "--pictures.is_train: ambiguous: one of --train_dataset.pictures.is_train, "
       "--val_dataset.pictures.is_train"},
      {{"--max_duraton", "9ep"}, "--max_duraton: unknown key; did you mean 'max_duration'?"},
      {{"--zzzzzzzz", "1"}, "--zzzzzzzz: unknown key; --dump shows all keys"},
      {{"--algorithms.channels_last.zzz", "1"},
       "--algorithms.channels_last.zzz: unknown key; --dump shows all keys"},
      {{"--run_name", "a\xFF"}, "--run_name: 'a?' is not UTF-8 text"},
      {{"--run_name=\xC3"}, "'--run_name=?' is not UTF-8 text"},
      {{"--num-workers", "9"}, "--num-workers: unknown key; did you mean 'num_workers'?"},
      {{"--mixup", "0.3"},
       "--mixup: the algorithm 'mixup' is not selected; select it with '--algorithms "
       "label_smoothing channels_last mixup'"},
      {{"--label_smoothing.smothing", "1"},
       "--label_smoothing.smothing: unknown key; did you mean 'label_smoothing.smoothing'?"},
      {{"--dataloader.threads", "9"}, "--dataloader.threads: unknown key; --dump shows all keys"},
      {{"--dataloader", "9"},
       "--dataloader: takes no value; its keys: num_workers, prefetch_factor, pin_memory, "
       "persistent_workers, timeout, on_bad_sample, resize_filter, ffcv_exact, crop_index, "
       "index_dir, coefficient_cache"},
      {{"--algorithms.label_smoothing", "0.1"},
       "--algorithms.label_smoothing: takes no value; its keys: smoothing"},
      {{"--algorithms.channels_last"}, "--algorithms.channels_last: takes no value"},
      {{"--algorithms.mixup.alpha", "0.3"},
       "--algorithms.mixup.alpha: the algorithm 'mixup' is not selected; select it with "
       "'--algorithms label_smoothing channels_last mixup'"},
      {{"--alpha", "0.3"},
       "--alpha: the algorithm 'mixup' is not selected; select it with '--algorithms "
       "label_smoothing channels_last mixup'"},
      {{"--algorithms.mixpu.alpha", "1"},
       "--algorithms.mixpu.alpha: unknown algorithm 'mixpu'; did you mean 'mixup'?"},
      {{"--algorithms", "mixup", "--smoothing", "0.3"},
       "--smoothing: the algorithm 'label_smoothing' is not selected; select it with '--algorithms "
       "mixup label_smoothing'"},
      {{"--optimizer.adamw.lr", "1"},
       "--optimizer.adamw.lr: the optimizer 'adamw' is not selected ('decoupled_sgdw' is); select "
       "it with '--optimizer adamw'"},
      {{"--algorithms", "mixpu"}, "--algorithms: unknown algorithm 'mixpu'; did you mean 'mixup'?"},
      {{"--algorithms", "mixup", "mixup"}, "--algorithms: 'mixup' is named twice"},
      {{"--algorithms", "label_smoothing", "label_smoothing"},
       "--algorithms: 'label_smoothing' is named twice"},
      {{"--algorithms"}, "--algorithms: needs names; 'none' is an empty list"},
      {{"--algorithms", "mixup", "--algorithms", "channels_last"}, "--algorithms: given twice"},
      {{"--optimizer", "adamw", "decoupled_sgdw"}, "--optimizer: takes one name, not 2"},
      {{"--model", "none"}, "r.yaml: model: missing required key"},
      {{"--schedulers", "cosine_decay", "cosine_decay"},
       "--schedulers: 'cosine_decay' is named twice"},
      {{"--deterministic_mode", "maybe"},
       "--deterministic_mode: must be true or false, not 'maybe'"},
      {{"--deterministic_mode", "1"}, "--deterministic_mode: must be true or false, not '1'"},
      {{"--initializers"},
       "--initializers: model.net.initializers: needs a value; 'none' is an empty list"},
      {{"--initializers", "ones", "twos"},
       "--initializers: model.net.initializers: must be kaiming, ones or zeros, not 'twos'"},
      {{"--depth", "-5"}, "--depth: model.net.depth: must be at least 1, not -5"},
      {{"--samples", "3"},
       "--samples: ambiguous: one of --train_dataset.pictures.samples, "
       "--val_dataset.pictures.samples"},
      {{"--max_duration", "90", "ep"}, "--max_duration: takes one value, not 2: '90' 'ep'"},
      {{"--autoresume"}, "--autoresume: needs run_name, the run to go on with"},
      {{"--eval_batch_size", "none"},
       "--eval_batch_size: missing required key: val_dataset needs it"},
  };
  for (const Case& c : cases) {
    CHECK(joined(problems_of(base, c.words)) == c.expected);
  }
}

TEST_CASE("words of other programs are answered with the key that is meant") {
  struct Case {
    Words words;
    std::string option;
  };
  const Case cases[] = {
      {{"--epochs", "10"}, "--max_duration 10ep"},
      {{"--epochs"}, "--max_duration 10ep"},
      {{"--max-steps=500"}, "--max_duration 500ba"},
      {{"--batch_size", "64"}, "--train_batch_size 64"},
      {{"--batch-size", "64"}, "--train_batch_size 64"},
      {{"--learning_rate", "0.3"}, "--lr 0.3"},
      {{"--wd", "1e-4"}, "--weight_decay 1e-4"},
      {{"--workers", "3"}, "--num_workers 3"},
      {{"--arch", "resnet18"}, "--model resnet18"},
      {{"--opt", "adamw"}, "--optimizer adamw"},
      {{"--data", "/d"}, "--train_dataset.pictures.datadir /d --val_dataset.pictures.datadir /d"},
      {{"--pretrained"}, "--load_path FILE"},
      {{"--resume"}, "--autoresume true --run_name NAME"},
      {{"--output", "out"}, "--run_dir out"},
      {{"--save_folder", "out"}, "--run_dir out"},
      {{"--save_folder", "s3://bucket/runs"}, "--save_remote s3://bucket/runs"},
      {{"--gpus", "1"}, "--device gpu"},
      {{"--gpus", "2"}, "composer -n 2 ..."},
      {{"--nproc-per-node=8"}, "composer -n 8 ..."},
      {{"--amp"}, "--precision amp"},
      {{"--clip-grad", "1"}, "--grad_clip_norm 1"},
      {{"--save_freq", "5"}, "--save_interval 5ep"},
  };
  for (const Case& c : cases)
    CHECK(joined(problems_of(base, c.words)) == c.words[0].substr(0, c.words[0].find('=')) +
                                                    ": unknown key; did you mean " + c.option +
                                                    "?");
  CHECK(joined(problems_of(base, {"--img_size", "64"})) ==
        "--img_size: unknown key; --dump shows all keys");
}

TEST_CASE("problems of file and command line come together in the order of their places") {
  CHECK(problems_of(with("depth: 50", "depth: deep"),
                    {"--seed", "x", "--smoothing", "9", "--train_batch_size", "0"}) ==
        Lines{"r.yaml:3:12: model.net.depth: must be a whole number, not 'deep'",
              "--seed: must be a whole number, not 'x'",
              "--smoothing: algorithms.label_smoothing.smoothing: must be in [0, 1], not 9",
              "--train_batch_size: must be at least 1, not 0"});
}

TEST_CASE("what is no recipe is refused") {
  CHECK(problems_of("") == Lines{"r.yaml: train_batch_size: missing required key",
                                 "r.yaml: max_duration: missing required key",
                                 "r.yaml: model: missing required key",
                                 "r.yaml: train_dataset: missing required key"});
  CHECK(problems_of("[1, 2]", {"--seed", "x"}) ==
        Lines{"r.yaml:1:1: a recipe is a map of keys, not a list"});
  CHECK(problems_of("a: [1") ==
        Lines{"r.yaml:1:1: not valid YAML: end of sequence flow not found"});
}

}  // namespace composer::recipe_problems_test
