#include "python/loader_keys.h"

#include "base/machine_limits.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "data/beton/source.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/sources.h"

namespace composer {
namespace {

/// Positions in the JSON text say nothing to its writer.
void forget_origins(Value& value) {
  value.origin = {};
  for (auto& item : value.items) forget_origins(item);
  for (auto& entry : value.entries) entry.origin = {}, forget_origins(entry.value);
}

LoaderKeys read_keys(const std::string& options) {
  Problems problems;
  auto values = parse_yaml(options, "options", problems);
  if (!values) throw ArgumentError(lines(problems));
  forget_origins(*values);
  LoaderKeys keys;
  keys.counts_workers = values->find("num_workers") != nullptr;
  if (Value* const pipeline = values->find("pipeline")) {
    if (pipeline->kind == Value::Kind::scalar) {
      if (pipeline->text != "train" && pipeline->text != "eval")
        throw ArgumentError("pipeline: " + pipeline->quote() +
                            " is neither train nor eval, nor a map of transforms");
      keys.is_train = pipeline->text == "train";
      *pipeline = Value::map();
    }
    for (const char* key : {"padding", "border", "fill"})
      keys.pads = keys.pads || pipeline->find(key) != nullptr;
  }
  read_fields(*values, collect(keys), "", problems);
  if (!problems.empty()) throw ArgumentError(lines(problems));
  return keys;
}

RankEnvironment place_of(const LoaderKeys& keys) {
  RankEnvironment place;
  try {
    place = read_rank_environment();
  } catch (const UserError& error) {
    if (!keys.own_rank || !keys.ranks) throw ArgumentError(error.problems());
  }
  if (keys.ranks && *keys.ranks != place.size) place.size = place.local_size = *keys.ranks;
  if (keys.own_rank) place.rank = *keys.own_rank;
  if (place.rank >= place.size)
    throw ArgumentError("rank: " + std::to_string(place.rank) + " of a world_size of " +
                        std::to_string(place.size) + "; ranks are numbered from 0");
  return place;
}

/// Up to 8, as a recipe's, of the processors that this process may use.
int64_t usual_workers(const RankEnvironment& place) {
  const auto cores = usable_processors(read_machine_limits());
  return std::clamp<int64_t>(cores / std::max<int64_t>(place.local_size, 1), 1, 8);
}

Transform transform_of(const LoaderKeys& keys, bool small) {
  const int64_t side = small ? Cifar10Params::kSize.height : 224;
  ImageSize size{side, side};
  if (!keys.sides.empty()) size = {keys.sides.front(), keys.sides.back()};
  const bool whole = small && size == Cifar10Params::kSize && !keys.resize_size;
  if (whole || keys.pads) return padded_transform(keys.transforms, size, keys.is_train);
  // An evaluation shows the middle, 7/8 of the shorter side, as torchvision's and FFCV's do.
  const int64_t resize_size = keys.is_train ? -1 : std::min(size.height, size.width) * 256 / 224;
  return {
      .kind = keys.is_train ? Transform::Kind::random_resized_crop : Transform::Kind::center_crop,
      .resize_size = keys.resize_size.value_or(resize_size),
      .size = size};
}

Normalization normalization_of(const LoaderKeys& keys, bool small, int64_t channels) {
  Normalization normalization = small ? Cifar10Params::normalization() : imagenet_normalization();
  for (const auto& [key, given, used] : {std::tuple("mean", &keys.mean, &normalization.mean),
                                         std::tuple("std", &keys.std, &normalization.std)}) {
    if (given->empty()) continue;
    if (std::ssize(*given) != channels)
      throw ArgumentError(std::string(key) + ": has " + quantity(std::ssize(*given), "number") +
                          "; the images have " + quantity(channels, "channel"));
    *used = *given;
    for (double& one : *used) one *= 255;
  }
  return normalization;
}

/// The problems of a recipe's data set, whose keys are options of other names here.
std::vector<std::string> in_words_of_options(std::vector<std::string> problems) {
  for (auto& problem : problems)
    for (const auto& [word, option] : {std::pair("datadir: ", "source: "),
                                       {"file: ", "source: "},
                                       {"shards: ", "source: "},
                                       {"is_train: true", "pipeline train"},
                                       {"is_train: false", "pipeline eval"},
                                       {"train_batch_size", "batch_size"}})
      if (const auto at = problem.find(word); at != std::string::npos)
        problem.replace(at, std::string_view(word).size(), option);
  return problems;
}

OpenedSet open_source_of(const LoaderKeys& keys, bool is_train) try {
  namespace fs = std::filesystem;
  auto opened =
      open_set(keys.source, is_train, keys.on_bad_sample, {}, keys.remote, keys.index_dir);
  std::error_code unknown;
  if (opened.class_names.empty() && fs::is_directory(keys.source, unknown) &&
      dynamic_cast<const FileSource*>(opened.source.get()) != nullptr)
    throw UserError("source: '" + keys.source + "' has no class folders, only loose image files");
  return opened;
} catch (const UserError& error) {
  auto problems = in_words_of_options(error.problems());
  std::error_code unknown;
  const bool pattern = keys.source.find('{') != std::string::npos;
  if (!is_remote(keys.source) && !pattern && !std::filesystem::exists(keys.source, unknown))
    throw NoFileError(problems);
  if (std::filesystem::is_regular_file(keys.source, unknown) && !is_beton(keys.source))
    problems.back() +=
        "; a source is a .beton file, a folder of class folders or shards, a .tar file, or a list "
        "(.csv, .tsv, .jsonl)";
  throw UserError(problems);
} catch (const RunError& error) {  // a store that does not answer, a disk that fails
  throw UserError(error.what());
}

DatasetParams dataset_params(const LoaderKeys& keys) {
  DatasetParams params;
  params.is_train = keys.is_train;
  params.drop_last = keys.drop_last.value_or(keys.is_train);
  params.order = keys.order == "auto" && keys.is_train ? "random" : keys.order;
  params.shuffle = params.order != "auto" && params.order != "sequential";
  params.views = keys.views;
  params.rows = keys.rows;
  return params;
}

/// One more than the largest class, at least as many as there are names; nullopt where a class is
/// below 0: FFCV's files may have any number.
std::optional<int64_t> classes_of(const OpenedLoader& set) {
  auto classes = std::ssize(set.class_names);
  for (int64_t i = 0; i < set.source->size(); ++i) {
    const int64_t label = label_of(*set.source, i);
    if (label < 0) return std::nullopt;
    classes = std::max(classes, label + 1);
  }
  return classes;
}

}  // namespace

std::string LoaderKeys::check() const {
  std::string problems = DataloaderOptions::check();
  if (sides.size() > 2) problems += "size: is one number, or height and width\n";
  for (const auto& [key, values] : {std::pair("mean", &mean), std::pair("std", &std)})
    for (const double value : *values)
      if (value > 1) {
        problems += std::string(key) + ": " + write_value(value).text +
                    " is above 1, and pixels are 0 to 1 here; divide it by 255\n";
        break;
      }
  for (const auto& [key, values] : {std::pair("mean", &mean), std::pair("std", &std)})
    if (!values->empty() && output_type == "uint8")
      problems += std::string(key) +
                  ": needs an output of float32, float16 or bfloat16; uint8 is not normalised\n";
  if (is_train && split.val > 0.9) problems += "split: to train it is at most 0.9\n";
  if (!is_train && views > 1) problems += "views: needs a pipeline to train\n";
  if (is_train && resize_size) problems += "resize_size: has no effect on random crops\n";
  return problems;
}

OpenedLoader open_loader_set(const std::string& options) {
  OpenedLoader set;
  set.keys = read_keys(options);
  const LoaderKeys& keys = set.keys;
  set.place = place_of(keys);
  const bool splits = keys.split.val > 0;
  OpenedSet opened = open_source_of(keys, keys.is_train || splits);
  set.source = std::move(opened.source);
  set.class_names = std::move(opened.class_names);
  if (const auto* beton = dynamic_cast<const BetonSource*>(set.source.get()))
    if (keys.is_train && !beton->has_classes())
      throw UserError(keys.source + ": has no field of classes to train on");

  static_cast<LoaderOptions&>(set.common) = keys;
  LoaderOptions& common = set.common;
  common.seed = static_cast<uint64_t>(keys.order_seed);
  common.rank = set.place.rank;
  common.world_size = set.place.size;
  common.batch_size = keys.batch_size * set.place.size;
  common.tells = set.place.rank == 0;
  if (!keys.counts_workers) common.num_workers = usual_workers(set.place);
  if (splits)
    common.split = Split{.val = keys.split.val,
                         .seed = static_cast<uint64_t>(keys.split.seed),
                         .evaluation = !keys.is_train};

  const bool small = has_small_images(*set.source);
  set.images = image_loader_options(*set.source, transform_of(keys, small), keys.transforms,
                                    normalization_of(keys, small, set.source->channels()),
                                    dataset_params(keys), common);
  if (keys.output_type == "float32") set.images.output = ElementType::float32;
  if (keys.output_type == "float16") set.images.output = ElementType::float16;
  if (keys.output_type == "bfloat16") set.images.output = ElementType::bfloat16;
  if (set.source->num_values() == 0) set.num_classes = classes_of(set);
  return set;
}

std::unique_ptr<BatchLoader> make_stream_loader(const OpenedLoader& set,
                                                std::unique_ptr<ArrayAllocator> allocator) {
  try {
    return make_batch_loader(set.source, set.images, set.common, std::move(allocator));
  } catch (const UserError& error) {
    throw ArgumentError(in_words_of_options(error.problems()));
  }
}

}  // namespace composer
