// The keys of composer_loader_open(), and a set that is opened by them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/keys/data_keys.h"
#include "base/rank_environment.h"
#include "data/beton/pack_image.h"
#include "data/datasets/image_folder.h"
#include "data/loading/batch_loader.h"

namespace composer {

/// An entry of `pipeline` as a list: a change of single images.
struct StepKeys {
  std::string step;
  std::vector<double> scale{0.08, 1}, ratio{3.0 / 4, 4.0 / 3};
  double share = 1, p = 0.5, magnitude = 0;
  int64_t padding = 0, side = 0;
  std::vector<int64_t> fill{0, 0, 0};

  void fields(auto&& f) {
    f("step", step, "whole, random_resized_crop and center_crop come first", required,
      one_of("whole", "random_resized_crop", "center_crop", "flip", "translate", "cutout",
             "brightness", "contrast", "saturation"));
    f("scale", scale, "random_resized_crop: share of the image's area, from and to", in(1e-6, 1));
    f("ratio", ratio, "random_resized_crop: width to height, from and to", in(1e-3, 1e3));
    f("share", share, "center_crop: the square's share of the shorter side", in(1e-6, 1));
    f("p", p, "probability of flip, brightness, contrast and saturation", in(0, 1));
    f("magnitude", magnitude, "of brightness, contrast and saturation", in(0, 100));
    f("padding", padding, "translate: pixels around the image", in(0, 4096));
    f("side", side, "cutout: side of the square", in(0, 4096));
    f("fill", fill, "translate, cutout: red, green, blue", in(0, 255));
  }
  std::string check() const;
};

struct LoaderKeys : DataloaderOptions {
  std::string source;
  bool is_train = true;  ///< `pipeline` in place of a map: "train" or "eval"
  PaddedTransformParams transforms;
  std::vector<StepKeys> steps;  ///< `pipeline` as a list; empty: it is none
  bool pads = false;            ///< `pipeline` has keys of the border
  bool counts_workers = false;  ///< num_workers is given
  std::vector<int64_t> sides;
  std::string order = "auto";
  std::optional<bool> drop_last;
  std::string rows;
  SplitOptions split;
  int64_t views = 1;
  std::optional<int64_t> resize_size;
  std::string output_type = "uint8";
  std::vector<double> table;
  std::optional<std::string> image_field;
  int64_t positions = 0;
  bool repeats = false, whole_pages = false;
  std::vector<double> mean, std;
  std::optional<int64_t> own_rank, ranks;
  int64_t order_seed = 0;
  RemoteKeys remote;

  void fields(auto&& f) {
    f("source", source,
      "a .beton file, class folders, shards, a list, or CIFAR-10's binary files; local or remote",
      required);
    f("batch_size", batch_size, "images of one rank's batch", required, in(1, 1 << 20));
    DataloaderOptions::fields(f);
    f("pipeline", transforms, "what is done to single training images");
    f("size", sides, "height and width of the images, or one number for both", in(1, 4096));
    f("order", order, "auto: random to train, else sequential",
      one_of("auto", "sequential", "random", "quasi_random", "class_balanced", "given"));
    f("positions", positions, "order given: samples of every epoch", in(0, 1e15));
    f("repeats", repeats, "order given: an epoch may have a sample more than once");
    f("whole_pages", whole_pages, "order given: it goes through windows of the file's pages");
    f("image_field", image_field, "a .beton file's field of images; empty = its rows, no images");
    f("seed", order_seed, "of the order and of all random transforms", in(0, 9.2e18));
    f("drop_last", drop_last, "leave out an incomplete last batch; none = to train");
    f("rows", rows, "the samples that take part, for instance 0-999,2000");
    f("split", split, "a split of the set in two");
    f("views", views, "training images that are made of each sample", in(1, 64));
    f("resize_size", resize_size, "length of the shorter side before the crop; -1 = as it is",
      at_least(1).or_exactly(-1));
    f("output", output_type, "type of the images; all but uint8 are normalised",
      one_of("uint8", "float32", "float16", "bfloat16"));
    f("table", table, "the output's numbers of each byte and channel, [256][C], not mean and std");
    f("mean", mean, "of each channel, of values from 0 to 1", at_least(0));
    f("std", std, "of each channel, of values from 0 to 1", above(0));
    f("rank", own_rank, "of this process", at_least(0));
    f("world_size", ranks, "number of ranks", at_least(1));
    f("remote", remote, "how stores are reached");
  }
  std::string check() const;
};

/// A set, opened, with all that decides its batches.
struct OpenedLoader {
  LoaderKeys keys;
  RankEnvironment place;
  std::shared_ptr<Source> source;
  ImageLoaderOptions images;
  LoaderOptions common;
  std::optional<int64_t> num_classes;
  std::vector<std::string> class_names;
};

/// An option is wrong: UserError's problems name it. Other UserErrors of open_loader_set() are
/// about the data.
class ArgumentError : public UserError {
 public:
  using UserError::UserError;
};

/// There is no such file or folder.
class NoFileError : public UserError {
 public:
  using UserError::UserError;
};

/// How composer_image_pack() stores an image. options: a JSON object. Throws ArgumentError.
PackOptions pack_options(const std::string& options);

/// options: a JSON object. Throws ArgumentError, or NoFileError or another UserError when the data
/// cannot be opened.
OpenedLoader open_loader_set(const std::string& options);

/// A stream's loader. orders: with order given. Throws ArgumentError for options that do not fit
/// the data.
std::unique_ptr<BatchLoader> make_stream_loader(const OpenedLoader& set,
                                                std::shared_ptr<const GivenOrders> orders,
                                                std::unique_ptr<ArrayAllocator> allocator);

}  // namespace composer
