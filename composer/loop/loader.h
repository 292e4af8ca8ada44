// The interfaces between training and data: a Loader hands out batches, a Dataset makes loaders.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loading/image_size.h"
#include "base/loading/loader_options.h"
#include "base/loading/normalization.h"
#include "base/loading/sample_transform.h"
#include "base/remote/remote_options.h"

namespace composer {

struct RawBatch;

/// How an evaluation prepares an image: the shorter side is resized to resize_size, the centre of
/// `size` is cropped, and its bytes are normalised.
struct Preparation {
  int64_t channels = 3;
  int64_t resize_size = -1;  ///< pixels; -1 = not resized
  ImageSize size;
  Normalization normalization;
};

/// An endless sequence of epochs of batches. Batch (epoch, batch) is a pure function of the seed:
/// threads, prefetching and the start position do not matter.
class Loader {
 public:
  virtual ~Loader() = default;

  virtual int64_t batches_per_epoch() const = 0;
  virtual int64_t samples_per_epoch() const = 0;
  /// Size of an image without a SizePlan.
  virtual ImageSize image_size() const = 0;
  virtual const Normalization& normalization() const = 0;
  /// The sample's name in messages: its file, or the file and the position in it.
  virtual std::string sample_name(int64_t /*index*/) const { return {}; }
  /// A digest of the data, from the number and the labels of the samples in order. All parts of a
  /// split have the same. Empty: not known.
  virtual std::string digest() const { return {}; }

  /// Continues with batch `batch` of epoch `epoch`, and drops prefetched batches. Without a plan
  /// every image has image_size(). Called before the first next(), and again when the plan changes.
  virtual void start(int64_t epoch, int64_t batch, SizePlan plan = {}) = 0;

  /// Adds a transform of each image. It runs after the data set's own transforms and earlier added
  /// ones. To be called before start().
  virtual void add_transform(SampleTransform transform) = 0;

  /// The next batch: images and target.classes (or values) on the CPU, pinned if LoaderOptions say
  /// so. With several ranks it is the rank's share. The share may be empty: an evaluation's batch
  /// has fewer samples than ranks, or no sample could be read. Nothing once at the end of each
  /// epoch; the next call begins the next epoch. Throws the exceptions of worker threads.
  virtual std::optional<RawBatch> next() = 0;
};

/// The location of a data set's samples: data sets of one location have the same samples.
struct DataLocation {
  std::string path{};  ///< the file or folder; empty: not known, or of no other data set
  std::string rows{};  ///< the selected rows; empty: all
};

/// A source of images. A recipe's train_dataset and val_dataset each name one.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// Sets how the set reaches stores, if it reads from any; called before all other functions.
  /// Without this call the environment's settings count.
  virtual void reach(const RemoteOptions&) {}

  /// Opens the data. Throws UserError naming what is missing or of the wrong kind; decodes nothing
  /// yet.
  virtual std::unique_ptr<Loader> open(const LoaderOptions& options) const = 0;

  /// The given image files, or the samples of one .beton file, in order, with this data set's
  /// evaluation transforms. Class i is the i-th file or sample: bad ones may be left out. If bad
  /// samples are errors, UserError names paths that are missing or not files.
  virtual std::unique_ptr<Loader> open_files(std::vector<std::string> files,
                                             const LoaderOptions& options) const = 0;

  /// How open_files() prepares an image, for programs that use the network without the data set.
  /// Nothing if this data set's way cannot be described so.
  virtual std::optional<Preparation> preparation(const LoaderOptions&) const { return {}; }

  /// Whether open() supports LoaderOptions::split: the two parts have this data set's transforms
  /// for training and for evaluation. A recipe may split no other data set.
  virtual bool can_split() const { return false; }

  /// The published number of samples per epoch, known without the data. Nothing if only the data
  /// tell the number.
  virtual std::optional<int64_t> published_samples() const { return std::nullopt; }
  /// Whether an epoch leaves out an incomplete last batch.
  virtual bool drop_last() const = 0;
  virtual ImageSize image_size() const = 0;

  /// The location of the samples. May read the data's folder.
  virtual DataLocation location() const { return {}; }

  /// The number of class indices: a model needs as many outputs. Nothing if not known. May read the
  /// data's folder.
  virtual std::optional<int64_t> num_classes() const { return std::nullopt; }

  /// The number of different class indices in the samples, if the data store indices. Nothing if
  /// not known, or if classes have names. May read the data's files.
  virtual std::optional<int64_t> num_labels() const { return std::nullopt; }

  /// The number of target values per sample; 0: the target is a class. May read the data's folder.
  virtual int64_t num_values() const { return 0; }

  /// Names of the classes, or target values, by index; empty without names. May read the data's
  /// folder.
  virtual std::vector<std::string> class_names() const { return {}; }

  /// Whether the labels of an evaluation are indices into LoaderOptions::class_names, if these are
  /// given: the data may lack classes. Otherwise labels are indices of the data's own classes.
  virtual bool finds_classes_by_name() const { return false; }

  /// Names of the numeric columns that the parameters could select as targets, for messages. May
  /// read the data's folder.
  virtual std::vector<std::string> number_names() const { return {}; }
};

struct DataFacts {
  /// The number of training samples by class, a split's evaluation part included. With target
  /// values all samples are of class 0.
  std::map<int64_t, int64_t> samples{};
  /// Pixels: the median shorter side of the examined images; 0: no image could be read.
  int64_t side = 0;
  int64_t looked_at = 0;        ///< the number of examined images
  bool has_evaluation = false;  ///< the data have a separate part for evaluation
};

/// An interface that a Dataset may also implement.
class TellsFacts {
 public:
  virtual ~TellsFacts() = default;
  /// Lists the samples and examines some images. Nothing if the data cannot tell. UserError as
  /// Dataset::open().
  virtual std::optional<DataFacts> facts(const LoaderOptions& options) const = 0;
};

}  // namespace composer
