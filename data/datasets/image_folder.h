// Photographs as image files, each class in a folder of its own.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "data/datasets/dataset_params.h"
#include "data/samples/class_folders.h"

namespace composer {

struct FolderParams : DatasetParams {
  /// Whether the original files may name their classes.
  static constexpr bool kNamesClasses = true;

  int64_t resize_size = -1;
  int64_t crop_size = 224;
  TransformParams transforms;
  FfcvParams ffcv;

  void fields(auto&& f) {
    DatasetParams::fields(f);
    f("resize_size", resize_size,
      "length of the shorter side before the crop; -1 = as it is, for the evaluation side of a "
      "split 8/7 of the crop",
      at_least(1).or_exactly(-1));
    f("crop_size", crop_size, "height and width of the images", in(1, 4096));
    f("transforms", transforms, "what is done to single training images");
    ffcv.fields(f);
  }
  std::string check() const;
  /// Whether there is a part for evaluation beside the part for training.
  bool has_evaluation() const;
  /// Names of the numbers in the original files that could be targets.
  std::vector<std::string> number_names() const { return {}; }
  /// The file or folder with the samples: DataLocation::path.
  std::string location() const { return {}; }
};

/// Reads a .beton file that datadir names as use_ffcv does.
void read_beton_at_datadir(FolderParams& params);

/// The facts of the .beton file, or of `original`, whose files are at `location`; nullopt for
/// remote files.
std::optional<DataFacts> facts_of(const FolderParams& params, const std::string& location,
                                  const std::function<std::shared_ptr<Source>()>& original,
                                  LoaderOptions options);

/// The files that a folder of images should hold, for messages.
inline const std::string kClassFolders =
    "train/ and val/ with a folder of image files for each class, or these class folders "
    "themselves";
/// Throws UserError if the class folders are named like the parts of a set, and has_folders()
/// for one of them.
void check_no_parts(const std::string& folder, const std::vector<std::string>& classes,
                    const std::function<bool(const std::string&)>& has_folders);
/// Warns of images beside the class folders, which belong to no class.
void warn_of_loose_images(const std::string& folder, int64_t images);
/// Warns of files in class folders that are no images by their names. one: the path of such a file.
void warn_of_other_files(const std::string& folder, int64_t files, const std::string& one);

/// Class folders that were listed.
struct FoundClasses {
  std::string folder;                      ///< folder of the classes, for warnings
  std::string root;                        ///< its path, with '/'
  std::vector<std::string> classes;        ///< names of the class folders
  std::vector<std::string> unknown{};      ///< classes that train/ lacks
  std::vector<std::string> empty{};        ///< classes without images
  std::vector<std::string> unreadable{};   ///< images of formats that cannot be read
  std::vector<std::string_view> images{};  ///< below root: images, or their folders with a '/'
};
/// Warns of a class folder that looks like the folder of the classes and, for an evaluation, of
/// empty classes. Throws UserError for unknown classes, other empty classes and, where bad samples
/// are errors, unreadable images.
void check_found(const FoundClasses& found, bool evaluation, OnBadSample on_bad_sample);

/// Opens datadir/train or datadir/val where one of them exists, else datadir itself. Classes are
/// numbered in sorted order of their folders' names (of train/ where it exists); files come in
/// sorted order; links to folders are followed. datadir may be remote: a folder of a bucket, or a
/// manifest (base/remote/listing.h). Throws UserError for a folder without classes; for a class
/// without images, except in an evaluation; and where bad samples are errors for images of formats
/// that cannot be read (HEIC, ...), which are bad samples otherwise. index_dir: see
/// LoaderOptions; the list of the files is kept there. class_names: the order in which an
/// evaluation numbers classes, with all folders' names; empty: the sorted order.
std::shared_ptr<Source> open_class_folders(const FolderParams& params,
                                           OnBadSample on_bad_sample = OnBadSample::error,
                                           const std::string& index_dir = {},
                                           const std::vector<std::string>& class_names = {});

/// Whether a file's name has the ending of a readable image format (.jpg, .png, ...).
bool has_image_name(const std::filesystem::path& file);

/// The same, or the ending of an unreadable format (.heic, ...): the files that a class has.
bool is_meant_as_image(const std::filesystem::path& file);

/// Names of the classes, in order; empty when there is no such folder. Throws UserError for a name
/// that is not UTF-8.
std::vector<std::string> folder_classes(const std::string& datadir,
                                        const RemoteOptions& remote = {});

/// Training: a random resized crop and flip. Evaluation: the middle; with a split, whose keys are
/// those of training, images without resize_size are first resized to 8/7 of the crop.
Transform folder_transform(const FolderParams& params, bool is_train, const LoaderOptions& options);

/// A set with the parameters, transforms, orders, splits and .beton files of class folders. P:
/// derived from FolderParams.
template <class P>
class FolderDataset : public PreparedDataset<P>, public TellsFacts {
 public:
  using PreparedDataset<P>::PreparedDataset;

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override {
    const auto part = with_part_to_open(params_, options);
    const auto source = part.ffcv.open(
        3, [&] { return open_original(part, options); }, options);
    warn_of_transforms(part.is_train, params_.transforms != TransformParams{});
    return open_loader(source, folder_transform(params_, params_.is_train, options),
                       params_.transforms, imagenet_normalization(), params_, options);
  }
  std::optional<Preparation> preparation(const LoaderOptions& options) const override {
    const auto transform = folder_transform(params_, false, options);
    return Preparation{.resize_size = transform.resize_size,
                       .size = transform.size,
                       .normalization = imagenet_normalization()};
  }
  ImageSize image_size() const override { return {params_.crop_size, params_.crop_size}; }
  /// nullopt for remote files.
  std::optional<DataFacts> facts(const LoaderOptions& options) const override {
    auto facts = facts_of(
        params_, original_location(), [&] { return open_original(params_, options); }, options);
    if (facts) facts->has_evaluation = params_.has_evaluation();
    return facts;
  }

 protected:
  using PreparedDataset<P>::params_;

  /// The original files of the part.
  virtual std::shared_ptr<Source> open_original(const P& part,
                                                const LoaderOptions& options) const = 0;
  virtual std::string original_location() const = 0;
};

class ImageFolderDataset : public FolderDataset<FolderParams> {
 public:
  explicit ImageFolderDataset(Params params) : ImageFolderDataset(std::move(params), true) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  DataLocation location() const override;
  int64_t num_values() const override { return std::ssize(params_.ffcv.value_names()); }
  std::vector<std::string> number_names() const override { return params_.ffcv.number_names(); }
  std::optional<int64_t> num_classes() const override;
  std::optional<int64_t> num_labels() const override {
    return params_.ffcv.use_ffcv ? params_.ffcv.num_labels() : std::nullopt;
  }
  std::vector<std::string> class_names() const override {
    return params_.ffcv.targets.empty() ? folder_classes(params_.datadir, params_.ffcv.remote)
                                        : params_.ffcv.value_names();
  }
  bool finds_classes_by_name() const override { return !params_.ffcv.use_ffcv; }

 protected:
  /// finds_beton: datadir may name a .beton file.
  ImageFolderDataset(Params params, bool finds_beton) : FolderDataset(std::move(params)) {
    if (finds_beton) read_beton_at_datadir(params_);
  }

  std::shared_ptr<Source> open_original(const FolderParams& part,
                                        const LoaderOptions& options) const override {
    return open_class_folders(part, options.on_bad_sample, options.index_dir,
                              params_.is_train ? std::vector<std::string>() : options.class_names);
  }
  std::string original_location() const override { return params_.datadir; }
};

/// ImageNet-1k (ILSVRC 2012) from its class folders.
struct ImagenetParams : FolderParams, StandInParams {
  ImagenetParams() { ffcv.ffcv_dest = "imagenet_train.ffcv"; }

  void fields(auto&& f) {
    FolderParams::fields(f);
    StandInParams::fields(f);
  }
  std::string check() const { return FolderParams::check() + StandInParams::check(ffcv); }
};

class ImagenetDataset final : public ImageFolderDataset {
 public:
  using Params = ImagenetParams;

  explicit ImagenetDataset(Params params)
      : ImageFolderDataset(params, !params.use_synthetic), stand_in_(params) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::optional<int64_t> published_samples() const override;
  DataLocation location() const override;
  std::optional<int64_t> num_classes() const override;
  std::vector<std::string> class_names() const override;
  std::optional<DataFacts> facts(const LoaderOptions& options) const override;

 private:
  const StandInParams stand_in_;
};

}  // namespace composer
