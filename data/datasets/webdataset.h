// Photographs in WebDataset's shards.
#pragma once

#include <string>

#include "data/datasets/photo_dataset.h"

namespace composer {

struct WebDatasetParams : FolderParams {
  std::string shards;
  std::string image = "auto";
  std::string label = "auto";

  static constexpr bool kNamesClasses = false;

  WebDatasetParams() {}  // not an aggregate: GCC 12 warns of its temporaries, falsely

  void fields(auto&& f) {
    FolderParams::fields(f);
    f("shards", shards,
      "the tar files, as in train-{000000..000146}.tar, below datadir where that is given; several "
      "with :: between them; none = all of datadir/train or datadir/val, or of datadir");
    f("image", image, "ending of a sample's image file, as in jpg; auto: the one that is an image");
    f("label", label,
      "ending of the file with the class, a number: cls or txt; json.NAME: in a JSON object; auto: "
      "cls, json (label), txt");
  }

  std::string check() const {
    return DatasetParams::check() + ffcv.check(/*has_numbers=*/true) + check_targets(*this, label);
  }
  /// Throws UserError naming shards that are missing or damaged.
  OpenedSet open(const std::string& index_dir) const;
  bool has_evaluation() const { return shards.empty() && FolderParams::has_evaluation(); }
  /// The path of `shards`, or of the folder of all shards.
  std::string location() const;

 private:
  std::string folder() const;
};

using WebDataset = PhotoDataset<WebDatasetParams>;

}  // namespace composer
