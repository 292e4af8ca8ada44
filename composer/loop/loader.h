// The interfaces between training and data: a Loader hands out batches, a Dataset makes loaders.
#pragma once

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

/// What an evaluation makes of an image before a network gets it: the shorter side becomes
/// resize_size long, the middle of `size` is cut out, and its bytes are normalised.
struct Preparation {
  int64_t channels = 3;
  int64_t resize_size = -1;  ///< -1 = stays
  ImageSize size;
  Normalization normalization;
};

/// An endless sequence of epochs of batches. Batch (epoch, batch) is a pure function of the seed:
/// threads, prefetching and where the loader was started do not matter.
class Loader {
 public:
  virtual ~Loader() = default;

  virtual int64_t batches_per_epoch() const = 0;
  virtual int64_t samples_per_epoch() const = 0;
  /// Size of one image as the loader hands it out without a plan.
  virtual ImageSize image_size() const = 0;
  virtual const Normalization& normalization() const = 0;
  /// What messages call the sample of that number: its file, or the file and the place in it.
  virtual std::string sample_name(int64_t /*index*/) const { return {}; }
  /// Tells the data that the samples are of from others, by their number and labels in order;
  /// the same for all sides of a split. Empty: not known.
  virtual std::string digest() const { return {}; }

  /// Goes on from batch `batch` of epoch `epoch`, at once. Drops what was prefetched. Without a
  /// plan every image has image_size(). Called before the first next(), and again when the plan
  /// changes.
  virtual void start(int64_t epoch, int64_t batch, SizePlan plan = {}) = 0;

  /// Changes each image after the set's own transforms, after those added before. To be called
  /// before start().
  virtual void add_transform(SampleTransform transform) = 0;

  /// The next batch: images and target.classes (or values) on the CPU (pinned where asked). With
  /// several ranks its share, which may be empty: where an evaluation's batch has fewer samples
  /// than ranks, or none of them could be read. Nothing once at the end of each epoch; the call
  /// after that begins the next epoch. Throws what a worker thread threw.
  virtual std::optional<RawBatch> next() = 0;
};

/// Where samples lie: sets with the same place read the same ones.
struct DataLocation {
  std::string path{};  ///< the file or folder that has them; empty: not known, or no other set's
  std::string rows{};  ///< those of it that take part; empty: all
};

/// Where images come from. A recipe's train_dataset and val_dataset each name one.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// How stores are reached, of a set that reads from some; called before all others. A set that is
  /// not told reaches them by the environment.
  virtual void reach(const RemoteOptions&) {}

  /// Opens the data. Throws UserError naming what is missing or of the wrong kind; decodes nothing
  /// yet.
  virtual std::unique_ptr<Loader> open(const LoaderOptions& options) const = 0;

  /// The given image files, or the samples of one .beton file, through this set's evaluation
  /// transforms, in order. Class i is the i-th file or sample: bad ones may be left out. Throws
  /// UserError naming files that are missing or no files, where bad samples are errors.
  virtual std::unique_ptr<Loader> open_files(std::vector<std::string> files,
                                             const LoaderOptions& options) const = 0;

  /// What open_files() makes of an image, for those who use the network without the set. Nothing
  /// for a set that does it in a way of its own.
  virtual std::optional<Preparation> preparation(const LoaderOptions&) const { return {}; }

  /// Whether open() keeps to LoaderOptions::split: the sides have this set's transforms for
  /// training and for evaluation. A recipe that splits another set is refused.
  virtual bool can_split() const { return false; }

  /// Samples an epoch and how they fall into batches, without looking for data: the published size
  /// of the set. Nothing for a set whose size only its data tell.
  virtual std::optional<int64_t> published_samples() const { return std::nullopt; }
  virtual bool drop_last() const = 0;
  virtual ImageSize image_size() const = 0;

  /// Where the samples lie. May read the data's folder.
  virtual DataLocation location() const { return {}; }

  /// How many class indices the data can have: a model needs as many outputs. Nothing where that is
  /// not known. May read the data's folder.
  virtual std::optional<int64_t> num_classes() const { return std::nullopt; }

  /// How many different class indices the samples have, where these are numbers that stand in the
  /// data. Nothing where that is not known, or classes have names. May read the data's files.
  virtual std::optional<int64_t> num_labels() const { return std::nullopt; }

  /// How many numbers each sample has for a target in place of a class; 0: it has a class. May read
  /// the data's folder.
  virtual int64_t num_values() const { return 0; }

  /// Names of the classes, or values, in order of their index; empty when the set has none. May
  /// read the data's folder.
  virtual std::vector<std::string> class_names() const { return {}; }

  /// Whether labels of an evaluation's samples are the places of their classes' names among
  /// LoaderOptions::class_names, where there are some: the data may lack classes. Otherwise they
  /// are the data's own.
  virtual bool finds_classes_by_name() const { return false; }

  /// What the data have numbers of, where the set's parameters could name some as targets; for
  /// messages. May read the data's folder.
  virtual std::vector<std::string> number_names() const { return {}; }
};

}  // namespace composer
