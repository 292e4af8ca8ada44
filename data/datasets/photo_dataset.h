// The base of sets of photographs whose original files are lists or shards.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/datasets/image_folder.h"
#include "data/samples/source.h"

namespace composer {

/// datadir/train or datadir/val where there is one of them, else datadir. expected: the files that
/// it should hold, for messages. Throws UserError if there is no datadir, or only the other
/// part.
std::filesystem::path part_folder(const std::string& datadir, bool is_train,
                                  const std::string& expected);

/// The same for a remote datadir, which need not exist. file: a file that the part must have, for
/// stores that cannot list; may be empty. Warns if the store refuses the part's file but has the
/// one of datadir.
std::string remote_part(const std::string& datadir, bool is_train, const std::string& file,
                        const RemoteOptions& remote = {});

/// The targets in the name of a kept table; empty where there are none.
std::string targets_text(const std::vector<std::string>& targets);

/// Problems with the keys of a set whose original files have classes or numbers (targets), one per
/// line. label, classes: the keys of these names, "auto" and "" where they are not given.
std::string check_targets(const FolderParams& params, const std::string& label,
                          const std::string& classes = {});

/// A set whose files are open.
struct OpenedSet {
  std::shared_ptr<Source> source;
  int64_t classes = 0;                     ///< one more than the largest label; 0: not known
  std::vector<std::string> class_names{};  ///< may be empty
};

/// An OpenedSet whose number of classes is that of the names, or follows from the labels.
OpenedSet opened_set(std::shared_ptr<Source> source, std::vector<std::string> class_names = {});

/// The facts of an OpenedSet, which outlive the open files.
struct SetFacts {
  int64_t classes = 0, values = 0;
  int64_t labels = 0;                ///< number of different labels of classes without names
  std::vector<std::string> names{};  ///< names of the values, else of the classes
};

/// P: derived from FolderParams. P::open(index_dir) const opens the original files as an OpenedSet,
/// or throws UserError naming missing files; index_dir is that of LoaderOptions, for files to keep.
/// A P with open(index_dir, on_bad_sample, class_names) may refuse samples whose files are missing,
/// and has Dataset's finds_classes_by_name(); empty class_names stand for the files' own.
/// P::kNamesClasses: whether the files may name their classes. P::location(): DataLocation::path.
template <class P>
class PhotoDataset : public FolderDataset<P> {
 public:
  explicit PhotoDataset(P params) : FolderDataset<P>(std::move(params)) {}

  DataLocation location() const override {
    if (params_.ffcv.use_ffcv) return params_.ffcv.location(params_.rows);
    return {params_.location(), params_.rows};
  }
  std::optional<int64_t> num_classes() const override {
    return is_beton_read() ? params_.ffcv.num_classes() : unless_0(facts_if_there().classes);
  }
  std::optional<int64_t> num_labels() const override {
    return is_beton_read() ? params_.ffcv.num_labels() : unless_0(facts_if_there().labels);
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

 private:
  static constexpr bool kFindsClasses =
      requires(const P& p, const std::vector<std::string>& names) {
    p.open("", OnBadSample::skip, names);
  };
  using FolderDataset<P>::params_;

  std::string original_location() const override { return params_.location(); }
  std::shared_ptr<Source> open_original(const P& part,
                                        const LoaderOptions& options) const override {
    if constexpr (kFindsClasses)
      return part
          .open(options.index_dir, options.on_bad_sample,
                params_.is_train ? std::vector<std::string>() : options.class_names)
          .source;
    else
      return part.open(options.index_dir).source;
  }
  bool is_beton_read() const { return params_.ffcv.is_read(); }
  static std::optional<int64_t> unless_0(int64_t count) {
    return count > 0 ? std::optional(count) : std::nullopt;
  }
  /// The facts of the files when they were first opened.
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
  /// Empty where there are no files: opening the set will report why.
  SetFacts facts_if_there() const {
    try {
      return set_facts();
    } catch (const UserError&) {
      return {};
    }
  }

  mutable std::optional<SetFacts> facts_;
};

}  // namespace composer
