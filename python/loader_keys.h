// The keys of composer_loader_open(), and a set that is opened by them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/keys/data_keys.h"
#include "base/rank_environment.h"
#include "data/datasets/image_folder.h"
#include "data/loading/batch_loader.h"

namespace composer {

struct LoaderKeys : DataloaderOptions {
  std::string source;
  bool is_train = true;  ///< `pipeline` in place of a map: "train" or "eval"
  PaddedTransformParams transforms;
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
      one_of("auto", "sequential", "random", "quasi_random", "class_balanced"));
    f("seed", order_seed, "of the order and of all random transforms", in(0, 9.2e18));
    f("drop_last", drop_last, "leave out an incomplete last batch; none = to train");
    f("rows", rows, "the samples that take part, for instance 0-999,2000");
    f("split", split, "a split of the set in two");
    f("views", views, "training images that are made of each sample", in(1, 64));
    f("resize_size", resize_size, "length of the shorter side before the crop; -1 = as it is",
      at_least(1).or_exactly(-1));
    f("output", output_type, "type of the images; all but uint8 are normalised",
      one_of("uint8", "float32", "float16", "bfloat16"));
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

/// options: a JSON object. Throws ArgumentError, or NoFileError or another UserError when the data
/// cannot be opened.
OpenedLoader open_loader_set(const std::string& options);

/// A stream's loader. Throws ArgumentError for options that do not fit the data.
std::unique_ptr<BatchLoader> make_stream_loader(const OpenedLoader& set,
                                                std::unique_ptr<ArrayAllocator> allocator);

}  // namespace composer
