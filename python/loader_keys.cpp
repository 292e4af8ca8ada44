#include "python/loader_keys.h"

#include "base/machine_limits.h"
#include "base/remote/remote_path.h"
#include "base/text.h"
#include "data/beton/source.h"
#include "data/datasets/cifar10.h"
#include "data/datasets/sources.h"
#include "data/pixels/augment.h"

namespace composer {
namespace {

/// Positions in the JSON text say nothing to its writer.
void forget_origins(Value& value) {
  value.origin = {};
  for (auto& item : value.items) forget_origins(item);
  for (auto& entry : value.entries) entry.origin = {}, forget_origins(entry.value);
}

struct PackKeys {
  std::string write_mode = "raw";
  std::optional<int64_t> max_resolution, smart_threshold;
  int64_t jpeg_quality = 90;
  double compress_probability = 0.5;

  void fields(auto&& f) {
    f("write_mode", write_mode, "how the image is stored",
      one_of("raw", "jpg", "smart", "proportion"));
    f("max_resolution", max_resolution, "longest side in pixels", in(1, 65535));
    f("smart_threshold", smart_threshold, "bytes of pixels that are not yet a JPEG", at_least(0));
    f("jpeg_quality", jpeg_quality, "of a JPEG", in(1, 100));
    f("compress_probability", compress_probability, "of a JPEG, with proportion", in(0, 1));
  }
};

LoaderKeys read_keys(const std::string& options) {
  Problems problems;
  auto values = parse_yaml(options, "options", problems);
  if (!values) throw ArgumentError(lines(problems));
  forget_origins(*values);
  LoaderKeys keys;
  keys.counts_workers = values->find("num_workers") != nullptr;
  if (Value* const pipeline = values->find("pipeline")) {
    if (pipeline->kind == Value::Kind::list) {
      for (size_t i = 0; i < pipeline->items.size(); ++i)
        read_fields(pipeline->items[i], collect(keys.steps.emplace_back()),
                    "pipeline[" + std::to_string(i) + "]", problems);
      if (keys.steps.empty()) throw ArgumentError("pipeline: is an empty list");
      *pipeline = Value::map();
    } else if (pipeline->kind == Value::Kind::scalar) {
      if (pipeline->text != "train" && pipeline->text != "eval")
        throw ArgumentError(
            "pipeline: " + pipeline->quote() +
            " is neither train nor eval, nor a map of transforms, nor a list of steps");
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

bool is_first(const std::string& step) {
  return step == "whole" || step == "random_resized_crop" || step == "center_crop";
}

Rgb colour_of(const std::vector<int64_t>& fill) {
  return {static_cast<uint8_t>(fill[0]), static_cast<uint8_t>(fill[1]),
          static_cast<uint8_t>(fill[2])};
}

/// The transform of a list of steps, and what follows it. Mirroring commutes with all other steps,
/// so that its place does not matter.
Transform transform_of(const std::vector<StepKeys>& steps, ImageSize size,
                       std::vector<SampleTransform>& after) {
  using Kind = Transform::Kind;
  const StepKeys& first = steps.front();
  Transform transform{.size = size, .flip = 0, .padding = 0};
  if (first.step == "random_resized_crop") {
    transform.kind = Kind::random_resized_crop;
    transform.crop = {first.scale[0], first.scale[1], first.ratio[0], first.ratio[1]};
  } else if (first.step == "center_crop") {
    transform.kind = Kind::center_crop;
    transform.center_share = first.share;
  }
  std::map<std::string, uint64_t> count;
  const auto add = [&](const StepKeys& step, SampleTransform change) {
    const uint64_t before = count[step.step]++;  // steps of one kind draw apart
    after.push_back([=](const MutableImage& image, SampleKey key) {
      key.seed += before << 48;
      change(image, key);
    });
  };
  for (const auto& step : std::span(steps).subspan(1)) {
    if (step.step == "flip" && transform.kind == Kind::center_crop) {
      add(step, random_flip(step.p));
    } else if (step.step == "flip") {
      transform.flip += step.p - 2 * transform.flip * step.p;
      if (transform.kind == Kind::whole) transform.kind = Kind::pad_and_crop;
    } else if (step.step == "translate") {
      const bool whole = transform.kind == Kind::whole || transform.kind == Kind::pad_and_crop;
      if (!whole || transform.padding > 0 || !after.empty()) {
        add(step, random_translate(step.padding, colour_of(step.fill)));
        continue;
      }
      transform.kind = Kind::pad_and_crop;
      transform.padding = step.padding;
      transform.border.fill = colour_of(step.fill);
    } else if (step.step == "cutout") {
      if (step.side > 0) add(step, random_cutout(step.side, colour_of(step.fill)));
    } else if (step.step == "brightness") {
      add(step, random_brightness(step.magnitude, step.p));
    } else if (step.step == "contrast") {
      add(step, random_contrast(step.magnitude, step.p));
    } else {
      add(step, random_saturation(step.magnitude, step.p));
    }
  }
  return transform;
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

/// The rows of a .beton file without their images: batches have the samples' numbers.
class RowSource final : public Source {
 public:
  explicit RowSource(const std::string& path) : path_(path), rows_(BetonFile(path).samples()) {}

  int64_t size() const override { return rows_; }
  int64_t channels() const override { return 1; }
  int64_t label(int64_t) const override { return 0; }
  std::string name(int64_t index) const override {
    return path_ + ", sample " + std::to_string(index);
  }
  StoredImage open(int64_t, ReadScratch&) const override {
    static constexpr uint8_t pixel = 0;
    return {.bytes = {&pixel, 1}, .size = {1, 1}, .channels = 1};
  }

 private:
  const std::string path_;
  const int64_t rows_;
};

/// The set of a .beton file whose image field is named.
OpenedSet open_field(const LoaderKeys& keys) {
  if (keys.image_field->empty()) return {std::make_shared<RowSource>(keys.source), {}};
  return {std::make_shared<BetonSource>(std::make_unique<const BetonFile>(keys.source), 3,
                                        std::vector<std::string>(), BetonSource::Unlabelled::take,
                                        *keys.image_field),
          {}};
}

OpenedSet open_source_of(const LoaderKeys& keys, bool is_train) try {
  namespace fs = std::filesystem;
  if (keys.image_field) return open_field(keys);
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

ElementType output_of(const LoaderKeys& keys) {
  if (keys.output_type == "float32") return ElementType::float32;
  if (keys.output_type == "float16") return ElementType::float16;
  return keys.output_type == "bfloat16" ? ElementType::bfloat16 : ElementType::uint8;
}

/// With a list of steps, or without images.
ImageLoaderOptions images_of_steps(const LoaderKeys& keys, const LoaderOptions& common,
                                   int64_t channels) {
  ImageLoaderOptions images{.transform = {.size = {1, 1}},
                            .normalization = {},
                            .order = OrderKind::given,
                            .drop_last = keys.drop_last.value_or(true),
                            .output = output_of(keys),
                            .table = {keys.table.begin(), keys.table.end()}};
  if (!keys.steps.empty())
    images.transform =
        transform_of(keys.steps, {keys.sides.front(), keys.sides.back()}, images.augmentations);
  if (!images.table.empty() && std::ssize(images.table) != 256 * channels)
    throw ArgumentError("table: has " + quantity(std::ssize(images.table), "number") + ", not " +
                        std::to_string(256 * channels));
  const bool random = images.transform.kind == Transform::Kind::random_resized_crop;
  set_pixels(images.transform, common, random);
  return images;
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

std::string StepKeys::check() const {
  std::string problems;
  if (fill.size() != 3) problems += "fill: must have three numbers\n";
  for (const auto& [key, range] : {std::pair("scale", &scale), std::pair("ratio", &ratio)})
    if (range->size() != 2 || range->front() > range->back())
      problems += std::string(key) + ": must have two numbers, the smaller one first\n";
  return problems;
}

std::string LoaderKeys::check() const {
  std::string problems = DataloaderOptions::check();
  for (size_t i = 0; i < steps.size(); ++i)
    if (is_first(steps[i].step) != (i == 0))
      problems += "pipeline: " + steps[i].step +
                  (i == 0 ? " is not the first step: that is whole, random_resized_crop or "
                            "center_crop\n"
                          : " comes first\n");
  if (!steps.empty() && sides.empty()) problems += "size: is needed with a list of steps\n";
  if (!table.empty() && output_type == "uint8")
    problems += "table: needs an output of float32, float16 or bfloat16\n";
  const bool given = order == "given";
  if (given != (!steps.empty() || image_field == ""))
    problems += "order: given goes with a list of steps, or an empty image_field\n";
  if (given && (split.val > 0 || !rows.empty() || views > 1))
    problems += "order: given has no split, rows or views\n";
  if (output_type != "uint8" && given && table.empty())
    problems += "output: needs a table with order given\n";
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

PackOptions pack_options(const std::string& options) {
  Problems problems;
  PackKeys keys;
  if (auto values = parse_yaml(options, "options", problems)) {
    forget_origins(*values);
    read_fields(*values, collect(keys), "", problems);
  }
  if (!problems.empty()) throw ArgumentError(lines(problems));
  return {.mode = write_mode_words.at(keys.write_mode),
          .max_resolution = keys.max_resolution,
          .smart_threshold = keys.smart_threshold,
          .jpeg_quality = static_cast<int>(keys.jpeg_quality),
          .compress_probability = keys.compress_probability,
          .index = false};
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
    if (keys.is_train && !keys.image_field && !beton->has_classes())
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

  if (keys.order == "given") {
    set.images = images_of_steps(keys, common, set.source->channels());
    return set;
  }
  const bool small = has_small_images(*set.source);
  set.images = image_loader_options(*set.source, transform_of(keys, small), keys.transforms,
                                    normalization_of(keys, small, set.source->channels()),
                                    dataset_params(keys), common);
  set.images.output = output_of(keys);
  if (set.source->num_values() == 0) set.num_classes = classes_of(set);
  return set;
}

std::unique_ptr<BatchLoader> make_stream_loader(const OpenedLoader& set,
                                                std::shared_ptr<const GivenOrders> orders,
                                                std::unique_ptr<ArrayAllocator> allocator) {
  auto images = set.images;
  images.given = std::move(orders);
  try {
    return make_batch_loader(set.source, std::move(images), set.common, std::move(allocator));
  } catch (const UserError& error) {
    throw ArgumentError(in_words_of_options(error.problems()));
  }
}

}  // namespace composer
