// Bad inputs as users make them: each ends with its exit status and one clear line, and leaves
// nothing behind.
#include <catch2/catch.hpp>

#include "look.h"
#include "tests/temporary_folder.h"

namespace composer::bad_inputs_test {

namespace fs = std::filesystem;

namespace {

struct Bad {
  std::string words;   ///< the command line
  std::string recipe;  ///< written to bad.yaml first, if any
  std::string error;   ///< what standard error must hold
  int status = 2;
};

const std::string good =
    "model: {mnist_classifier: }\n"
    "train_dataset: {synthetic: {height: 28, width: 28, channels: 1, num_classes: 10, samples: "
    "64}}\n"
    "val_dataset: {synthetic: {height: 28, width: 28, channels: 1, num_classes: 10, samples: 64, "
    "is_train: false}}\n"
    "optimizer: {sgd: {lr: 0.1}}\n"
    "train_batch_size: 32\neval_batch_size: 32\nmax_duration: 1ep\ndevice: cpu\n";

/// `good` with one line put in place of the line that begins with `key`, or added.
std::string with(const std::string& key, const std::string& line) {
  std::string text;
  bool replaced = false;
  for (size_t at = 0; at < good.size();) {
    const size_t end = good.find('\n', at) + 1;
    const auto old = good.substr(at, end - at);
    if (old.starts_with(key + ":"))
      text += line + "\n", replaced = true;
    else
      text += old;
    at = end;
  }
  return replaced ? text : text + line + "\n";
}

const std::string train = "train -f bad.yaml";

const std::vector<Bad> cases{
    // The command line.
    {"trian", "", "did you mean 'train'?"},
    {"train -f", "", "-f"},
    {"train -f nowhere.yaml", "", "nowhere.yaml"},
    {"train -f resnet5", "", "resnet50"},
    {"train resnet50 --lr 1", "", "'resnet50' is a recipe: composer train -f resnet50"},
    {"train bad.yaml", good, "'bad.yaml' is a recipe: composer train -f bad.yaml"},
    {"train -f resnet18 resnet50", "", "'resnet50' belongs to no option"},
    {"train resnet5", "", "'resnet5' belongs to no option"},
    {"eval resnet50", "", "'resnet50' is a recipe: composer eval -f resnet50"},
    {"train --model resnet18", "",
     "unknown model 'resnet18'; did you mean --model resnet --model_name resnet18?"},
    {"train --max_duraton 3ep", "", "--max_duraton: unknown key; did you mean 'max_duration'?"},
    {"train --epochs 3", "", "--epochs: unknown key; did you mean --max_duration 3ep?"},
    {"train --img-size 64", "",
     "--img-size: unknown key; did you mean --train_dataset.shapes.size 64 "
     "--val_dataset.shapes.size 64?"},
    {"train --data d", "",
     "the quickstart draws its own images; for those of d: composer train -f finetune --datadir d"},
    {"train --datadir=d.csv", "",
     "composer train -f finetune --train_dataset image_list --train_dataset.image_list.file d.csv"},
    {"train broken_images", "", "composer train -f finetune --datadir broken_images"},
    {"sweep --lr 0.1,0.2 --datadir d", "", "composer sweep -f finetune --datadir d"},
    {"train -f finetune --train_dataset image_list --file d.csv", "",
     "'d.csv' is none; the file of a data set is --train_dataset.image_list.file"},
    {"train --file=d.csv", "", "--train_dataset.image_list.file"},
    {"eval --load_path text.pth --file d.TSV", "", "--train_dataset.image_list.file"},
    {"predict --load_path text.pth --source d -f d.jsonl", "", "--train_dataset.image_list.file"},
    {"train -f resnet18 --file other", "", "--file is the recipe, as -f is, and is given once"},
    {"train --max_duration", "", "max_duration"},
    {"train --max_duration 3 4", "", "max_duration"},
    {"train --max_duration 3ep --max_duration 4ep", "", "max_duration"},
    {"train --max_duration three", "", "max_duration"},
    {"train --max_duration -3ep", "", "max_duration"},
    {"train --max_duration 0ep", "", "max_duration"},
    {"train --max_duration 1.5ep", "", "max_duration"},
    {"train --max_duration 3parsecs", "", "max_duration"},
    {"train --algorithms blurpol", "", "did you mean 'blurpool'?"},
    {"train --algorithms blurpool blurpool", "", "blurpool"},
    {"train --algorithms.mixup.alpha 0.2", "", "mixup"},
    {"train --algorithms channels_last --algorithms.label_smoothing.smoothing 0.2", "",
     "label_smoothing"},
    {"train --algorithms.label_smoothing.smoothing 1.5", "", "must be in [0, 1]"},
    {"train --algorithms.label_smoothing.smothing 0.1", "", "did you mean"},
    {"train --samples 10", "", "samples"},
    {"train --optimizer adamww", "", "did you mean 'adamw'?"},
    {"train --seed -1", "", "seed"},
    {"train --seed 1e3", "", "seed"},
    {"train --precision fp8", "", "precision"},
    {"train --device tpu", "", "device"},
    {"train --grad_accum 0", "", "grad_accum"},
    {"train --grad_accum auto --parallelism fsdp", "", "grad_accum"},
    {"train --train_batch_size 0", "", "train_batch_size"},
    {"train --train_batch_size 12.5", "", "train_batch_size"},
    {"train --autoresume true", "", "run_name"},
    {"train --load_weights_only true", "", "load_path"},
    {"train --run_name a/b", "", "run_name"},
    {"train --load_path nowhere", "", "nowhere"},
    {"train --progress_bar maybe", "", "progress_bar"},
    {"train --eval_interval 2dur", "", "eval_interval"},
    {"train --spatial_ranks 2", "", "does not divide the 1 rank that there are"},
    {"train --spatial_ranks 0", "", "spatial_ranks"},
    {"train --spatial_ranks 2 --parallelism fsdp", "", "spatial_ranks: not with parallelism: fsdp"},
    {"-n 0 train", "", "-n"},
    {"-n 5000 train", "", "at most 4096"},
    {"-n two train", "", "-n"},
    {"-n 3 --world_size 7 train", "", "machines of 3"},
    {"-n 2 list", "", "not of list"},
    {"-n 2 --world_size 4 train", "", "--master_addr: missing"},
    {"-n 2 --requeue_status 300 train", "", "--requeue_status"},
    {"-n 2 --bind core train", "", "--bind"},
    {"-n 2 --grace_seconds 0 train", "",
     "--grace_seconds: '0' is not a whole number of at least 1"},
    {"--grace_seconds 60 list", "", "--grace_seconds: is for ranks"},
    {"train --max_restarts 3", "", "before the subcommand"},
    {"-n 4 --world_size 2 train", "", "--world_size"},
    {"-n", "", "-n"},
    {"--master_addr", "", "--master_addr: needs a value"},
    {"--master_addr=host --master_port=none train", "", "--master_port: 'none'"},
    {"train -n 8", "", "before the subcommand"},
    {"-n 1 --node_rank 3 train", "", "--node_rank"},
    {"eval --load_path runs", "", "load_path"},
    {"list algoritms", "", "did you mean 'algorithms'?"},
    {"describe algorithm blurpol", "", "did you mean 'blurpool'?"},
    {"describe algorithm", "", "name"},
    {"describe thing blurpool", "", "thing"},
    {"bench", "", "which action"},
    {"bench sped", "", "step"},
    {"bench loadr", "", "did you mean 'loader'?"},
    {"bench step --model resnet51", "",
     "--model: 'resnet51' is none of resnet18, resnet34, resnet50, resnet101, resnet152, resnet9, "
     "resnet20, resnet56; did you mean 'resnet50'?"},
    {"bench step --precision bf61", "", "--precision: 'bf61' is none of fp32"},
    {"data write --format imagefolder", "",
     "--format: 'imagefolder' is none of image_folder, imagenet, cifar10, cifar, mnist, beton, "
     "webdataset, mds, csv, tsv, jsonl; did you mean 'image_folder'?"},
    {"describe scheduler cosine", "", "did you mean 'cosine_decay'?"},
    {"bench step --steps 0", "", "--steps"},
    {"bench step --algorithms blurpol", "", "--algorithms: unknown algorithm 'blurpol'; did you"},
    {"bench step --algorithms gradient_clipping", "", "clipping_type: missing required key"},
    {"bench image --source no_such_folder", "", "no_such_folder"},
    {"bench augment --algorithm nothing", "", "nothing"},
    {"bench augment --algorithm mixup", "", "where"},
    {"bench augment --algorithm random_erasing --pixels no_such_file", "", "no_such_file"},
    {"checkpoint info nowhere", "", "nowhere"},
    {"checkpoint shrink nowhere", "", "shrink"},
    {"checkpoint info nowhere --weights ema", "", "--weights"},
    {"checkpoint export nowhere --output a.safetensors --weights ema", "",
     "is now composer export CHECKPOINT --format safetensors"},
    {"export", "", "path"},
    {"export nowhere --output net", "", "--format"},
    {"export nowhere --format safetensors", "", "--output"},
    {"export nowhere --format safetensors --output s3://bucket/net", "", "on this machine"},
    {"export nowhere --format onnx --output https://h/a.onnx", "", "on this machine"},
    {"reference --output s3://bucket/pages", "", "on this machine"},
    {"report nowhere --output s3://bucket/a.html", "", "on this machine"},
    {"export nowhere --format safetensor --output net", "", "did you mean 'safetensors'?"},
    {"export nowhere --format torchscript --output a.pth", "", "a.pth must end in .pt"},
    {"export nowhere --format torchscript --output x/a.pt", "", "there is no folder"},
    {"export nowhere --format torchscript --output a.pt --names timm", "",
     "--names: is for --format safetensors"},
    {"export nowhere --format safetensors --output a.safetensors", "", "makes a folder"},
    {"export nowhere --format safetensors --output net --preprocessing", "", "--preprocessing"},
    {"export nowhere --format safetensors --output net --weights lookahead", "", "lookahead"},
    {"export nowhere --format safetensors --output net", "",
     "nowhere: is no checkpoint: there is no such folder"},
    {"export empty_folder --format safetensors --output net", "", "empty_folder: is no checkpoint"},
    {"quantize nowhere --calibration empty_folder --output q.onnx", "",
     "--output: q.onnx: this makes a folder; name one without .onnx"},
    {"export text.pth --format safetensors --output net", "", "text.pth: holds only weights"},
    {"export text.safetensors --format safetensors --output net", "", "text.safetensors"},
    {"data info x.beton", "", "x.beton: no such file"},
    {"data info empty_folder", "",
     "empty_folder: is a folder without tar files, MDS shards or class folders; composer data"},
    {"data info broken_images/class", "", "class: is a folder without tar files"},
    {"data info .", "", "empty_folder: a class folder without images"},
    {"data", "", "which action"},
    {"data inof x.beton", "", "did you mean 'info'"},
    {"data index nowhere", "", "nowhere: there is no such file"},
    {"data index text.pth", "", "text.pth"},
    {"bench loader --source nowhere", "", "nowhere: there is no such file"},
    {"bench loader --source empty_folder", "", "empty_folder: has no files"},
    {"bench loader --source empty_folder --pipeline x", "", "--pipeline"},
    {"eval -f resnet18", "", "load_path"},
    {"eval --load_path nowhere.pth", "", "nowhere.pth"},
    {"eval --load_path text.pth", "", "text.pth"},
    {"eval --load_path text.safetensors", "", "text.safetensors"},
    {"eval --load_path empty_folder", "", "empty_folder"},
    {"predict --load_path text.pth", "", "--source"},
    {"predict --source text.pth", "", "or --model a folder"},
    {"predict --load_path text.pth --source nowhere.jpg", "", "nowhere.jpg"},
    {"predict --load_path text.pth --source empty_folder", "", "empty_folder"},
    {"predict --load_path text.pth --source text.pth --top_k 0", "", "--top_k"},
    {"predict -f resnet18 --load_path text.pth --source text.pth --topk 3", "",
     "--topk: unknown key; did you mean 'top_k'?"},
    // The recipe.
    {train, "model: [\n", "bad.yaml:"},
    {train, "just text\n", "bad.yaml:"},
    {train, "", "bad.yaml"},
    {train, good + "max_duration: 2ep\n", "bad.yaml:9:1: max_duration"},
    {train, good + "algorithms: &a [*a]\n", "bad.yaml:9"},
    {train, good + "algoritms: [blurpool]\n",
     "bad.yaml:9:1: algoritms: unknown key; did you mean 'algorithms'?"},
    {train, good + "optimizer.sgd.lr: 0.1\n",
     "bad.yaml:9:1: optimizer.sgd.lr: unknown key; in a file keys are nested: "
     "optimizer: {sgd: {lr: ...}}"},
    {train, good + "algorithms:\n\tblurpool:\n",
     "bad.yaml:10:1: a tab indents this line; YAML takes only spaces"},
    {train, good + "run_dir: $HOME/runs\n",
     "run_dir: '$HOME/runs': only a shell puts a variable's value in the place of "
     "$HOME; give the path"},
    {train, good + "algorithms: {label_smoothing: {smoothing: lots}}\n",
     "bad.yaml:9:43: algorithms.label_smoothing.smoothing"},
    {train, good + "algorithms: [label_smoothing, label_smoothing]\n", "label_smoothing"},
    {train, good + "algorithms: 3\n", "algorithms"},
    {train, with("model", "model: {resnet_cifar: {model_name: resnet_20}}"),
     "the images have 1 channels, model.resnet_cifar takes 3"},
    {train, with("model", "model: {resnet: {model_name: resnet51}}"), "model_name"},
    {train, with("model", "model: {resnet: , mnist_classifier: }"), "model"},
    {train, with("model", "modle: {mnist_classifier: }"), "did you mean 'model'?"},
    {train, with("optimizer", "optimizer: {sgd: {lr: .nan}}"), "optimizer.sgd.lr"},
    {train, with("optimizer", "optimizer: {sgd: {lr: 0.1, nesterov: true}}"), "nesterov"},
    {train, with("optimizer", "optimizer: {sgd: }"), "optimizer.sgd.lr"},
    {train, with("max_duration", "max_duration: [1ep]"), "max_duration"},
    {train, with("dataloader", "dataloader: {num_workers: -1}"), "dataloader.num_workers"},
    {train, with("schedulers", "schedulers: {multistep: {}}"), "milestones"},
    {train,
     with("algorithms",
          "algorithms: {progressive_resizing: {delay_fraction: 0.8, finetune_fraction: 0.4}}"),
     "fraction"},
    {train, with("algorithms", "algorithms: [blurpool]"), "blurpool"},
    {train, with("algorithms", "algorithms: [mixup, cutmix]"),
     "bad.yaml:9:14: algorithms.mixup: does not go with cutmix: both give"},
    {train, with("algorithms", "algorithms: {augmix: {width: 1000000000000}}"),
     "algorithms.augmix.width: must be in [1, 100]"},
    {train, with("algorithms", "algorithms: {squeeze_excite: {latent_channels: 1e20}}"),
     "latent_channels: must be a share below 1 or a whole number"},
    {train, with("algorithms", "algorithms: {factorize: {latent_features: 1.5}}"),
     "latent_features: must be a share below 1 or a whole number"},
    {train, with("algorithms", "algorithms: {cutout: {length: 0}}"), "algorithms.cutout.length"},
    {train, with("algorithms", "algorithms: {lookahead: {alpha: 0}}"),
     "algorithms.lookahead.alpha"},
    {train, with("algorithms", "algorithms: {selective_backprop: {interrupt: 1, keep: 1}}"),
     "interrupt: must not be 1"},
    {train, with("algorithms", "algorithms: {layer_freezing: {freeze_start: 1}}"),
     "freeze_start: must be below 1"},
    {train, with("algorithms", "algorithms: {random_erasing: {min_area: 1, max_area: 1}}"),
     "min_area: must be below 1"},
    {train, with("algorithms", "algorithms: {ema: {train_with_ema_weights: true}}"),
     "train_with_ema_weights: must be false"},
    {train, with("algorithms", "algorithms: {colout: {batch: false}}"), "batch: must be true"},
    {train + " --algorithms mixup,ema", good, "names are separated by spaces"},
    {train + " --algorithms agc", good, "'composer list algorithms' names them"},
    {train + " --lr -inf", good, "must be a number, not '-inf'"},
    {train + " --algorithms ema swa", good, "--algorithms: algorithms.ema: does not go with swa"},
    {train, with("eval_batch_size", "precision: amp"), "eval_batch_size"},
    // The data.
    {train, with("train_dataset", "train_dataset: {mnist: {datadir: nowhere}}"), "nowhere"},
    {train, with("train_dataset", "train_dataset: {mnist: {datadir: empty_folder}}"),
     "empty_folder"},
    {train, with("train_dataset", "train_dataset: {mnist: {datadir: text.pth}}"), "text.pth"},
    {train, with("train_dataset", "train_dataset: {cifar10: {datadir: empty_folder}}"),
     "empty_folder"},
    {train, with("train_dataset", "train_dataset: {imagenet: {datadir: empty_folder}}"),
     "empty_folder"},
    {train, with("train_dataset", "train_dataset: {imagenet: {use_ffcv: true, ffcv_dir: nowhere}}"),
     "nowhere/imagenet_train.ffcv"},
    {train,
     with("train_dataset",
          "train_dataset: {image_folder: {use_ffcv: true, ffcv_dir: ., ffcv_dest: text.pth}}"),
     "text.pth"},
    {train, with("train_dataset", "train_dataset: {imagenet: {ffcv_write_dataset: true}}"),
     "ffcv_write_dataset: needs use_ffcv: true"},
    {train, with("train_dataset", "train_dataset: {imagenet: {order: random, shuffle: false}}"),
     "order: needs shuffle"},
    {train, with("train_dataset", "train_dataset: {shapes: {ffcv_dir: text.pth/x}}"), "ffcv_dir"},
    {train, with("dataloader", "dataloader: {on_bad_sample: ignore}"), "on_bad_sample"},
    {train, with("dataloader", "dataloader: {resize_filter: lanczos}"), "resize_filter"},
    {train, with("algorithms", "algorithms: {progressive_resizing: {where: loader, mode: crop}}"),
     "the loader does not crop"},
    {train,
     with("train_dataset",
          "train_dataset: {synthetic: {height: 28, width: 28, channels: 1, num_classes: 10, "
          "samples: 10}}"),
     "batch"},
    {train,
     with("train_dataset",
          "train_dataset: {synthetic: {height: 4, width: 28, channels: 1, num_classes: 10, "
          "samples: 64}}"),
     "train_dataset.synthetic: images of 4 x 28 pixels are too small for the network: layer conv2: "
     "Conv2d(16, 32, 3x3) gets 2x26 pixels and needs 3x3"},
    {train,
     with("train_dataset",
          "train_dataset: {synthetic: {height: 5, width: 5, channels: 1, num_classes: 10, "
          "samples: 65, drop_last: false}}"),
     "train_dataset.synthetic: the last batch of an epoch has one sample only: layer bn: "
     "BatchNorm2d(32) gets one value a channel"},
    // What only the run can find.
    {train,
     "model: {resnet_cifar: {model_name: resnet_20}}\n"
     "train_dataset: {image_folder: {datadir: broken_images, crop_size: 28}}\n"
     "optimizer: {sgd: {lr: 0.1}}\ntrain_batch_size: 32\nmax_duration: 1ep\ndevice: cpu\n"
     "dataloader: {num_workers: 2}\n",
     "broken.jpg", 1},
};

}  // namespace

TEST_CASE("bad inputs give their exit status and a clear line, and leave nothing", "[cli][slow]") {
  CHECK(cases.size() >= 60);
  for (const auto& bad : cases) {
    const TemporaryFolder folder;
    folder.write("text.pth", "this is text\n");
    folder.write("text.safetensors", "this is text\n");
    fs::create_directory(folder / "empty_folder");
    fs::create_directories(folder / "broken_images/class");
    for (int i = 0; i < 40; ++i)
      folder.write(
          "broken_images/class/broken.jpg" + std::string(static_cast<size_t>(i), 'x') + ".jpg",
          "no image");
    folder.write("bad.yaml", bad.recipe);

    const auto outcome = look(folder.path(), split(bad.words));
    INFO("composer " << bad.words << "\n"
                     << bad.recipe << "--- it printed:\n"
                     << outcome.output << outcome.errors);
    CHECK(outcome.status == bad.status);
    CHECK(outcome.errors.find(bad.error) != std::string::npos);
    CHECK(outcome.errors.find("frame #") == std::string::npos);
    CHECK(outcome.errors.find("terminate called") == std::string::npos);
    if (bad.status == 2) {
      CHECK(std::count(outcome.errors.begin(), outcome.errors.end(), '\n') <= 4);
      CHECK_FALSE(fs::exists(folder / "runs"));
    }
  }
}

}  // namespace composer::bad_inputs_test
