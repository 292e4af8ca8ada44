// Photographs as image files that a list names, with their classes.
#pragma once

#include <string>

#include "data/datasets/photo_dataset.h"

namespace composer {

struct ImageListParams : FolderParams {
  std::string file;
  std::string images_dir;
  std::string classes;
  std::string path = "auto";
  std::string label = "auto";

  ImageListParams() {}  // not an aggregate: GCC 12 warns of its temporaries, falsely

  void fields(auto&& f) {
    FolderParams::fields(f);
    f("file", file,
      "the list, .csv, .tsv or .jsonl, below datadir where that is given; its paths begin at "
      "images_dir");
    f("images_dir", images_dir,
      "folder that the list's paths begin in, below datadir where that is given; none = the "
      "list's own");
    f("classes", classes,
      "where labels are names: a file with one a line, in the classes' order, or the list (that of "
      "training) whose names count; none = those of the list itself, sorted");
    f("path", path, "column, or key, of the paths; auto: by its usual names, or the first of two");
    f("label", label,
      "column, or key, of the labels; auto: by its usual names, or the second of two");
  }

  std::string check() const {
    return DatasetParams::check() + ffcv.check(/*has_numbers=*/true) +
           check_targets(*this, label, classes);
  }
  /// Throws UserError naming a wrong line and, where bad samples are errors, each line whose file
  /// is missing.
  OpenedSet open(const std::string& index_dir, OnBadSample on_bad_sample = OnBadSample::skip,
                 const std::vector<std::string>& class_names = {}) const;
  bool has_evaluation() const { return false; }
  /// Names of the list's columns with numbers.
  std::vector<std::string> number_names() const;
  std::string location() const;
};

using ImageListDataset = PhotoDataset<ImageListParams>;

}  // namespace composer
