// What sets of photographs share, whatever their files are: preparation as of class folders.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/remote/remote_path.h"
#include "data/datasets/image_folder.h"
#include "data/samples/source.h"

namespace composer {

/// datadir/train or datadir/val where there is one of them, else datadir. expected: what it should
/// hold, for messages. Throws UserError where there is no datadir, or only the other part.
std::filesystem::path part_folder(const std::string& datadir, bool is_train,
                                  const std::string& expected);

/// The same of a remote datadir, which need not be there. file: one that the folder has, by which
/// the part is known to be there where a store cannot list; empty: none. Where the store refuses
/// the part's file and has datadir's, a warning says so.
std::string remote_part(const std::string& datadir, bool is_train, const std::string& file);

/// For the name of a kept table: of which targets it is. Empty where there are none.
std::string targets_text(const std::vector<std::string>& targets);

/// What is wrong with the keys of a set whose own files have classes or numbers (targets): a line
/// each. label, classes: the keys of these names, "auto" and "" where they are not given.
std::string check_targets(const FolderParams& params, const std::string& label,
                          const std::string& classes = {});

/// What the files of a set hold.
struct OpenedSet {
  std::shared_ptr<Source> source;
  int64_t classes = 0;                     ///< that labels count up to; 0: not known
  std::vector<std::string> class_names{};  ///< may be empty
};

/// A set of which nothing but the source is known: as many classes as its labels say, or as there
/// are names.
OpenedSet opened_set(std::shared_ptr<Source> source, std::vector<std::string> class_names = {});

/// What a set's files say, without them.
struct SetFacts {
  int64_t classes = 0, values = 0;
  int64_t labels = 0;                ///< different ones, of classes without names
  std::vector<std::string> names{};  ///< of the values, else of the classes
};

/// A set that has the parameters, transforms, orders, splits and .beton files of class folders. P:
/// derived from FolderParams; its OpenedSet open(index_dir) const opens the files that the
/// parameters name, or throws UserError naming what is missing. index_dir: as of LoaderOptions, for
/// what shall be kept. Where it has open(index_dir, on_bad_sample, class_names), samples whose
/// files are missing may be refused by it, and it finds_classes_by_name(), as of Dataset; empty:
/// the files' own. P::kNamesClasses: whether these files may name their classes. P::place(), where
/// it has one: what has the samples, by which a warning knows that two sets have the same.
template <class P>
class PhotoDataset : public PreparedDataset, public TellsFacts {
 public:
  using Params = P;

  explicit PhotoDataset(Params params) : params_(std::move(params)) {}

  std::unique_ptr<Loader> open(const LoaderOptions& options) const override {
    const auto part = with_part_to_open(params_, options);
    const auto original = [&] { return original_of(part, options); };
    const auto source = part.ffcv.use_ffcv ? part.ffcv.open(3, original, options) : original();
    warn_of_transforms(part.is_train, params_.transforms != TransformParams{});
    return open_loader(source, folder_transform(params_, params_.is_train, options),
                       params_.transforms, imagenet_normalization(), params_, options);
  }
  std::optional<Preparation> preparation(const LoaderOptions& options) const override {
    return folder_preparation(params_, options);
  }
  bool can_split() const override { return true; }
  DataLocation location() const override {
    if (params_.ffcv.use_ffcv) return params_.ffcv.location(params_.rows);
    return {params_.location(), params_.rows};
  }
  bool drop_last() const override { return params_.drop_last; }
  ImageSize image_size() const override { return {params_.crop_size, params_.crop_size}; }
  std::optional<int64_t> num_classes() const override {
    if (is_beton_read()) return params_.ffcv.num_classes();
    const int64_t classes = facts_if_there().classes;
    return classes > 0 ? std::optional(classes) : std::nullopt;
  }
  std::optional<int64_t> num_labels() const override {
    if (is_beton_read()) return params_.ffcv.num_labels();
    const int64_t labels = facts_if_there().labels;
    return labels > 0 ? std::optional(labels) : std::nullopt;
  }
  bool finds_classes_by_name() const override { return kFindsClasses && !params_.ffcv.use_ffcv; }
  int64_t num_values() const override {
    return is_beton_read() ? std::ssize(params_.ffcv.value_names()) : set_facts().values;
  }
  std::vector<std::string> number_names() const override {
    return is_beton_read() ? params_.ffcv.number_names() : params_.number_names();
  }
  std::vector<std::string> class_names() const override {
    if (is_beton_read() && !params_.ffcv.targets.empty()) return params_.ffcv.value_names();
    if (is_beton_read() && !P::kNamesClasses) return {};
    return facts_if_there().names;
  }
  /// Nothing of remote files.
  std::optional<DataFacts> facts(const LoaderOptions& options) const override {
    auto told = facts_of(
        params_, params_.location(), [&] { return original_of(params_, options); }, options);
    if (told) told->has_evaluation = params_.has_evaluation();
    return told;
  }

 private:
  static constexpr bool kFindsClasses =
      requires(const P& p, const std::vector<std::string>& names) {
    p.open("", OnBadSample::skip, names);
  };

  std::shared_ptr<Source> original_of(const P& part, const LoaderOptions& options) const {
    if constexpr (kFindsClasses)
      return part
          .open(options.index_dir, options.on_bad_sample,
                params_.is_train ? std::vector<std::string>() : options.class_names)
          .source;
    else
      return part.open(options.index_dir).source;
  }
  bool is_beton_read() const { return params_.ffcv.is_read(); }
  /// As when it was first asked for.
  const SetFacts& set_facts() const {
    if (!facts_) {
      auto set = params_.open("");
      const int64_t values = set.source->num_values();
      const bool numbered = values == 0 && set.class_names.empty();
      facts_ = SetFacts{set.classes, values, numbered ? count_labels(*set.source) : 0,
                        values > 0 ? set.source->value_names() : std::move(set.class_names)};
    }
    return *facts_;
  }
  /// Empty where there are no files: opening the set will tell why.
  SetFacts facts_if_there() const {
    try {
      return set_facts();
    } catch (const UserError&) {
      return {};
    }
  }

  Params params_;
  mutable std::optional<SetFacts> facts_;
};

}  // namespace composer
