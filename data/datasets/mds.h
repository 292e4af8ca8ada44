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
  /// Throws UserError naming files that are missing or damaged.
  OpenedSet open(const std::string& index_dir) const;
  /// Names of the columns with numbers.
  std::vector<std::string> number_names() const;
  std::string location() const { return folder(); }
  /// The samples of the readable shards, null where there are none; other shards are added to
  /// `unreadable`. Throws UserError for problems that are not those of single shards.
  std::shared_ptr<Source> open_readable(WrongFiles& unreadable) const;
  /// wrong_mds_hashes() of the set's files.
  WrongFiles wrong_hashes() const;

 private:
  std::string folder() const;
  std::filesystem::path unpack_folder() const;
  MdsOptions options() const;
};

using MdsDataset = PhotoDataset<MdsParams>;

}  // namespace composer
