// Photographs as image files, each class in a folder of its own.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

#include "data/datasets/dataset_params.h"

namespace composer {

struct FolderParams : DatasetParams {
  /// Whether the files may tell the names of their classes.
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
  /// Whether there is a part to evaluate on beside the one that is trained on.
  bool has_evaluation() const;
  /// What original files that are opened by the parameters could have as targets.
  std::vector<std::string> number_names() const { return {}; }
  /// The file or folder that has them, as of DataLocation.
  std::string location() const { return {}; }
};

/// A .beton file that datadir names is read as by use_ffcv.
void read_beton_at_datadir(FolderParams& params);

/// Of the .beton file, or of `original`, whose files are at `place`; nothing where they are remote.
std::optional<DataFacts> facts_of(const FolderParams& params, const std::string& place,
                                  const std::function<std::shared_ptr<Source>()>& original,
                                  LoaderOptions options);
/// The same of class folders.
std::optional<DataFacts> folder_facts(const FolderParams& params, const LoaderOptions& options);

/// What a folder of images should have, and what is said of those that do not.
inline const std::string kClassFolders =
    "train/ and val/ with a folder of image files for each class, or these class folders "
    "themselves";
inline const std::string kNoImages =
    ": a class folder without images (.jpg, .jpeg, .png, .webp, .gif, .bmp, .tif, .ppm)";
std::string unreadable_images(const std::vector<std::string>& files);
/// Throws UserError where the class folders are named like the parts of a set and one has folders
/// in it, as has_folders says of a class.
void check_no_parts(const std::string& folder, const std::vector<std::string>& classes,
                    const std::function<bool(const std::string&)>& has_folders);
/// A line in the log where there are image files beside class folders, which no class has.
void warn_of_loose_images(const std::string& folder, int64_t images);
/// One where there are files in class folders that are no images by their names. one: the path of
/// such a file.
void warn_of_other_files(const std::string& folder, int64_t files, const std::string& one);
/// One where a class folder looks like the folder of the classes. files: paths below the latter of
/// images, or of their folders with a '/'.
void warn_of_nested_classes(const std::string& folder, const std::vector<std::string>& classes,
                            const std::vector<std::string_view>& files);
/// One where there are class folders without images, of an evaluation.
void warn_of_empty_classes(const std::string& folder, const std::vector<std::string>& classes);

/// The place of each class among `names`; -1: it is none of them.
std::vector<int32_t> places_of(const std::vector<std::string>& classes,
                               const std::vector<std::string>& names);

/// Opens datadir/train or datadir/val if there is one of them, else datadir itself. Classes are
/// numbered in sorted order of their folders' names (those of train/ where it is there); files come
/// in sorted order; links to folders are followed. datadir may be remote: a folder of a bucket, or
/// a manifest (base/remote/listing.h). Throws UserError for a folder without classes, for a
/// class without images, unless this is an evaluation; for images of formats that cannot be read
/// (HEIC, ...) if bad samples are errors: otherwise they are bad samples of the set. index_dir: as
/// of LoaderOptions; the list of the files is kept there. class_names: of an evaluation, in whose
/// order classes are numbered, all folders' names among them; empty: as above.
std::shared_ptr<Source> open_class_folders(const FolderParams& params,
                                           OnBadSample on_bad_sample = OnBadSample::error,
                                           const std::string& index_dir = {},
                                           const std::vector<std::string>& class_names = {});

/// As params and options want it; part: the parameters of what is to be opened (with_part_to_open).
std::shared_ptr<Source> open_class_folders(const FolderParams& params, const FolderParams& part,
                                           const LoaderOptions& options);

/// Whether a file's name ends like those of the images that can be read (.jpg, .png, ...).
bool has_image_name(const std::filesystem::path& file);

/// The same, or like those of images that cannot (.heic, ...): the files that a class has.
bool is_meant_as_image(const std::filesystem::path& file);

/// Of the .beton file or the class folders.
DataLocation folder_place(const FolderParams& params);

/// Names of the classes, in order; empty when there is no such folder. UserError for one that is
/// not UTF-8.
std::vector<std::string> folder_classes(const std::string& datadir);

/// How many there are; nothing when there is none.
std::optional<int64_t> folder_class_count(const std::string& datadir);

/// How many classes the .beton file or the folders have; nothing when there are none.
std::optional<int64_t> class_count(const FolderParams& params);

/// Throws UserError where the .beton file that is to be written from the folders is there already
/// and has other classes than they have. Warns where it has other samples.
void check_written_file(const FolderParams& params, const LoaderOptions& options);

/// Training: a random resized crop and flip. Evaluation: the middle; with a split, whose keys are
/// those of training, images without resize_size are first resized to 8/7 of the crop.
Transform folder_transform(const FolderParams& params, bool is_train, const LoaderOptions& options);

/// What an evaluation makes of an image.
Preparation folder_preparation(const FolderParams& params, const LoaderOptions& options);

class ImageFolderDataset final : public PreparedDataset, public TellsFacts {
 public:
  using Params = FolderParams;

  explicit ImageFolderDataset(Params params) : params_(std::move(params)) {
    read_beton_at_datadir(params_);
  }

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override;
  std::optional<Preparation> preparation(const LoaderOptions& options) const override {
    return folder_preparation(params_, options);
  }
  bool can_split() const override { return true; }
  DataLocation location() const override { return folder_place(params_); }
  bool drop_last() const override { return params_.drop_last; }
  ImageSize image_size() const override { return {params_.crop_size, params_.crop_size}; }
  int64_t num_values() const override { return std::ssize(params_.ffcv.value_names()); }
  std::vector<std::string> number_names() const override { return params_.ffcv.number_names(); }
  std::optional<int64_t> num_classes() const override { return class_count(params_); }
  std::optional<int64_t> num_labels() const override {
    return params_.ffcv.use_ffcv ? params_.ffcv.num_labels() : std::nullopt;
  }
  std::vector<std::string> class_names() const override {
    return params_.ffcv.targets.empty() ? folder_classes(params_.datadir)
                                        : params_.ffcv.value_names();
  }
  bool finds_classes_by_name() const override { return !params_.ffcv.use_ffcv; }
  std::optional<DataFacts> facts(const LoaderOptions& options) const override {
    return folder_facts(params_, options);
  }

 private:
  Params params_;
};

}  // namespace composer
