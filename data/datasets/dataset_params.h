// Parameters of image data sets, and the making of their loaders.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/params/params.h"
#include "composer/loop/loader.h"
#include "data/batches/image_loader.h"

namespace composer {

class BetonFile;

/// Augmentations of single training images on the loader's threads, beside crop and resize.
struct TransformParams {
  double flip = 0.5;
  int64_t cutout = 0;
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double grayscale = 0;
  double random_erasing = 0;

  void fields(auto&& f) {
    f("flip", flip, "how often an image is mirrored left-right", in(0, 1));
    f("cutout", cutout, "side of a black square put somewhere in the image; 0 = none", in(0, 4096));
    f("brightness", brightness,
      "every other image times a factor in [1 - this, 1 + this]; 0 = as it is", in(0, 10));
    f("contrast", contrast, "as brightness, of the distance to the image's mean luma", in(0, 10));
    f("saturation", saturation, "as brightness, of the distance to the pixel's luma", in(0, 10));
    f("grayscale", grayscale, "how often an image loses its colours", in(0, 1));
    f("random_erasing", random_erasing, "how often a random rectangle is blacked out", in(0, 1));
  }
  bool operator==(const TransformParams&) const = default;
};

/// TransformParams of small images, which are padded and cropped.
struct PaddedTransformParams : TransformParams {
  bool operator==(const PaddedTransformParams&) const = default;

  int64_t padding = 4;
  std::string border = "fill";
  std::vector<int64_t> fill{0, 0, 0};

  void fields(auto&& f) {
    TransformParams::fields(f);
    f("padding", padding, "pixels around the image before a crop of its size", in(0, 128));
    f("border", border, "what the padding shows", one_of("fill", "reflect"));
    f("fill", fill, "colour of the border: red, green, blue", in(0, 255));
  }
  std::string check() const { return fill.size() == 3 ? "" : "fill: must have three numbers"; }
};

struct DatasetParams {
  bool is_train = true;
  bool drop_last = true;
  bool shuffle = true;
  std::string order = "auto";
  int64_t views = 1;
  std::string rows;
  std::string datadir;

  void fields(auto&& f) {
    f("is_train", is_train,
      "the training part with its augmentation; false, as always under val_dataset: the part for "
      "evaluation");
    f("drop_last", drop_last,
      "leave out an incomplete batch at the end of an epoch; false under val_dataset");
    f("shuffle", shuffle, "a new order each epoch; false under val_dataset");
    f("order", order,
      "with shuffle: auto is random; quasi_random mixes windows of a .beton file's pages, for "
      "files larger than the memory; class_balanced shows every class equally often",
      one_of("auto", "random", "quasi_random", "class_balanced"));
    f("views", views,
      "training images that are made of each sample it reads, each with its own crop and flips; a "
      "batch's size counts images",
      in(1, 64));
    f("rows", rows, "the samples that take part, for instance 0-999,2000; none = all");
    f("datadir", datadir, "folder with the data");
  }
  std::string check() const {
    return shuffle || order == "auto" ? "" : "order: needs shuffle: true\n";
  }
};

/// The keys of recipes about FFCV's files.
struct FfcvParams {
  bool use_ffcv = false;
  std::string ffcv_dir = "/tmp";
  std::string ffcv_dest{};
  bool ffcv_write_dataset = false;
  std::string ffcv_local_dir{};
  std::vector<std::string> targets{};
  RemoteOptions remote{};  ///< no key: how the stores of this file, and of datadir, are reached

  void fields(auto&& f) {
    f("use_ffcv", use_ffcv,
      "read ffcv_dir/ffcv_dest, a .beton file, in place of the original files");
    f("ffcv_dir", ffcv_dir, "folder of the .beton file");
    f("ffcv_dest", ffcv_dest, "name of the .beton file");
    f("ffcv_write_dataset", ffcv_write_dataset,
      "with use_ffcv: write the .beton file from datadir where it is not there yet");
    f("ffcv_local_dir", ffcv_local_dir,
      "with use_ffcv: copy the .beton file to this folder first, on a disk of the machine's own");
    f("targets", targets,
      "numbers that are each image's target in place of the class (docs/targets.md): with use_ffcv "
      "fields of the file; of a list or of MDS shards columns, of WebDataset's endings or "
      "json.NAME");
  }
  /// has_numbers: whether the original files may have numbers for targets.
  std::string check(bool has_numbers = false) const {
    std::string problems;
    if (!use_ffcv && ffcv_write_dataset) problems += "ffcv_write_dataset: needs use_ffcv: true\n";
    if (!use_ffcv && !ffcv_local_dir.empty()) problems += "ffcv_local_dir: needs use_ffcv: true\n";
    if (!has_numbers && !use_ffcv && !targets.empty())
      problems += "targets: needs use_ffcv: true\n";
    return problems;
  }

  std::string path() const;
  bool is_there() const;  ///< whether the .beton file exists
  /// Whether the .beton file is read rather than the original files: not before it is written.
  bool is_read() const { return use_ffcv && (!ffcv_write_dataset || is_there()); }
  /// The location of samples that are read from the .beton file; empty for the original files.
  DataLocation location(const std::string& rows) const;
  /// The original files without use_ffcv; else the .beton file, which ffcv_write_dataset first
  /// writes from `original`, together with its crop index unless that is off. channels: 1 or 3.
  /// Throws UserError.
  std::shared_ptr<Source> open(int64_t channels,
                               const std::function<std::shared_ptr<Source>()>& original,
                               const LoaderOptions& options) const;
  /// One more than the largest class; nullopt without a .beton file of classes. Throws UserError
  /// for a negative class.
  std::optional<int64_t> num_classes() const;
  /// How many different classes the samples have; nullopt without a .beton file of classes.
  std::optional<int64_t> num_labels() const;
  /// Names of the target's values; empty where targets are classes. Opens the file.
  std::vector<std::string> value_names() const;
  /// Names of the fields that could be targets; empty without use_ffcv. Opens the file.
  std::vector<std::string> number_names() const;

 private:
  std::unique_ptr<const BetonFile> file() const;
  /// Whether there is a .beton file whose samples have classes.
  bool has_classes() const;
};

/// The keys about noise that stands in for a published set.
struct StandInParams {
  bool use_synthetic = false;
  int64_t synthetic_num_unique_samples = 100;

  void fields(auto&& f) {
    f("use_synthetic", use_synthetic, "noise in place of the data, as many samples");
    f("synthetic_num_unique_samples", synthetic_num_unique_samples,
      "different images of use_synthetic", at_least(1));
  }
  std::string check(const FfcvParams& ffcv) const {
    return ffcv.use_ffcv && use_synthetic ? "use_ffcv and use_synthetic exclude each other\n" : "";
  }
};

/// The parameters of the part to open: the training part where the options have a split, which
/// divides that part. The transforms still follow from `params` itself.
template <class Params>
Params with_part_to_open(Params params, const LoaderOptions& options) {
  params.is_train = params.is_train || options.split;
  return params;
}

/// The facts of a source, by its labels and some of its images; has_evaluation is not set. rows: as
/// of DatasetParams.
DataFacts facts_of(const Source& source, const std::string& rows);

/// Mean and standard deviation of ImageNet's colours.
Normalization imagenet_normalization();

/// Training images flipped, padded and cropped as the parameters say.
Transform padded_transform(const PaddedTransformParams& params, ImageSize size, bool is_train);

/// Sets how JPEG is decoded and images are resized, as the options say.
void set_pixels(Transform& transform, const LoaderOptions& options, bool is_train);

/// Warns where transforms are set for a part that is not for training.
void warn_of_transforms(bool is_train, bool set);

/// A loader's options with the parameters' order and augmentations; training images follow a size
/// plan. Warns of an order that the source does not have.
ImageLoaderOptions image_loader_options(const Source& source, Transform transform,
                                        const TransformParams& transforms,
                                        Normalization normalization, const DatasetParams& params,
                                        const LoaderOptions& options);

/// A loader with these options.
std::unique_ptr<Loader> open_loader(std::shared_ptr<Source> source, Transform transform,
                                    const TransformParams& transforms, Normalization normalization,
                                    const DatasetParams& params, const LoaderOptions& options);

/// A loader of image files in the given order, or of one .beton file; it ignores options.split.
std::unique_ptr<Loader> open_file_loader(const std::vector<std::string>& files,
                                         const Preparation& preparation,
                                         const LoaderOptions& options,
                                         const RemoteOptions& remote = {});

/// A loader of the source with an evaluation's preparation; it ignores options.split. rows: see
/// ImageLoaderOptions.
std::unique_ptr<Loader> open_prepared_loader(std::shared_ptr<Source> source,
                                             const Preparation& preparation, std::string rows,
                                             const LoaderOptions& options);

/// A set that prepares given files by its preparation alone, and that can be split. P: its
/// parameters.
template <class P>
class PreparedDataset : public Dataset {
 public:
  using Params = P;

  explicit PreparedDataset(Params params) : params_(std::move(params)) {}

  void reach(const RemoteOptions& remote) final {
    remote_ = remote;
    if constexpr (requires { params_.ffcv; }) params_.ffcv.remote = remote;
  }
  std::unique_ptr<Loader> open_files(std::vector<std::string> files,
                                     const LoaderOptions& options) const final {
    return open_file_loader(files, *preparation(options), options, remote_);
  }
  std::optional<Preparation> preparation(const LoaderOptions& options) const override = 0;
  bool can_split() const override { return true; }
  bool drop_last() const override { return params_.drop_last; }

 protected:
  Params params_;

 private:
  RemoteOptions remote_;
};

/// The preparation of a set whose images all have `size`: other files are resized and cropped.
Preparation fitted(int64_t channels, ImageSize size, Normalization normalization);

/// Returns datadir. Throws UserError unless it is an existing folder. expected: the files that the
/// folder should hold, for messages.
std::string checked_datadir(const std::string& datadir, const std::string& expected);

/// The error for a datadir (shown_path) that has only the other one of train/ and val/.
UserError missing_part(const std::string& datadir, bool is_train, const std::string& expected);

}  // namespace composer
