// Photographs in MosaicML's shards (MDS).
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/remote/remote_path.h"
#include "data/datasets/photo_dataset.h"
#include "data/shards/mds.h"

namespace composer {

struct MdsParams : FolderParams {
  std::string image = "auto";
  std::string label = "auto";
  std::string local_dir;

  static constexpr bool kNamesClasses = false;

  MdsParams() {}  // not an aggregate: GCC 12 warns of its temporaries, falsely

  void fields(auto&& f) {
    FolderParams::fields(f);
    f("image", image, "column of the images; auto: the one of jpeg, png or pil");
    f("label", label, "column of the classes; auto: label, else the one of integers");
    f("local_dir", local_dir,
      "folder that compressed shards on a disk are unpacked to, once; none = the user's cache");
  }

  std::string check() const {
    const bool unused = !local_dir.empty() && is_remote(datadir);
    return DatasetParams::check() + ffcv.check(/*has_numbers=*/true) + check_targets(*this, label) +
           (unused ? "local_dir: a store's shards are unpacked below remote.cache_dir\n" : "");
  }
  /// Throws UserError naming what is missing or damaged.
  OpenedSet open(const std::string& index_dir) const;
  /// Of the columns.
  std::vector<std::string> number_names() const;
  std::string location() const { return folder(); }
  /// The samples of the shards that can be read, null where none can; the others are added to
  /// `unreadable`. Throws UserError where it is not due to single shards.
  std::shared_ptr<Source> open_readable(WrongFiles& unreadable) const;
  /// As wrong_mds_hashes, of the files of the set.
  WrongFiles wrong_hashes() const;

 private:
  std::string folder() const;
  std::filesystem::path unpack_folder() const;
  MdsOptions options() const;
};

class MdsDataset final : public PhotoDataset<MdsParams> {
 public:
  using PhotoDataset::PhotoDataset;
};

}  // namespace composer
