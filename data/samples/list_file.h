// Lists of image files and their classes: CSV, TSV and JSON lines.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/samples/sample_table.h"

namespace composer {

struct ListColumns {
  std::string path = "auto";   ///< auto: a usual name, or the first of two columns
  std::string label = "auto";  ///< auto: a usual name, or the second of two columns
  /// Columns of numbers to read in place of labels, each with one number, several separated by
  /// blanks, or a JSON list; empty: labels.
  std::vector<std::string> targets{};
  bool label_may_lack = false;  ///< a list may have no labels, which are then empty
};

/// How the files of a list are looked for. Paths without an image's ending may lack the ending of
/// their files, the same for all. The table watches the folders of the files; a table with missing
/// files is made anew at each start.
struct ListedFiles {
  std::string root;      ///< folder of relative paths, with its '/'
  bool required = true;  ///< missing files are a UserError naming each line; else they stay
};

/// Whether the file's name has the ending of a list: .csv, .tsv or .jsonl.
bool is_list_file(const std::filesystem::path& file);

/// The names of classes that labels are looked up in: the lines of a file, or the sorted labels of
/// a list; empty where these are all numbers. Throws UserError.
std::vector<std::string> listed_classes(const std::filesystem::path& file,
                                        const ListColumns& columns);

/// Names of the columns or keys, without the path's, that have numbers in the first sample: targets
/// may name them. Empty where the first line names no columns. Throws UserError.
std::vector<std::string> listed_columns(const std::filesystem::path& file,
                                        const ListColumns& columns);

/// An image of a list: its path from the current folder, and its label, which may be empty.
struct ListedImage {
  std::string path, label;
  int64_t line = 0;
};

/// The images of a list, with or without labels, in order; relative paths begin at the list's
/// folder. Throws UserError naming a wrong line.
std::vector<ListedImage> listed_images(const std::filesystem::path& file);

/// The table of the files that a list names, in order; relative paths begin at the list's folder.
/// Without `classes`, labels are numbers where all labels are; else names, numbered in sorted
/// order. classes: from listed_classes(); labels are indices of their names there, or, where it is
/// empty, numbers. files: how files are looked for; nullopt: they are not. Throws UserError naming
/// a wrong line and column.
SampleTableWriter list_table(const std::filesystem::path& file, const ListColumns& columns,
                             const std::optional<std::vector<std::string>>& classes,
                             const std::optional<ListedFiles>& files = {});

}  // namespace composer
