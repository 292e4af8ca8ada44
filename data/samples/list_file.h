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
  std::string path = "auto";   ///< auto: by its usual names, or the first of two
  std::string label = "auto";  ///< auto: by its usual names, or the second of two
  /// Those of numbers, several with blanks between them or as a list, that are read in place of
  /// labels; none: labels.
  std::vector<std::string> targets{};
  bool label_may_lack = false;  ///< then labels are empty
};

/// The files of a list, which are looked for. Paths that have no image's ending may leave out that
/// of their files, the same for all. The table watches the folders that the files lie in; one that
/// lacks some is made anew at each start.
struct ListedFiles {
  std::string root;      ///< a folder with its '/': relative paths begin there
  bool required = true;  ///< UserError naming each line whose file is not there; else they stay
};

/// Whether the file's name ends like that of a list: .csv, .tsv or .jsonl.
bool is_list_file(const std::filesystem::path& file);

/// The names of classes that labels are looked up in: the lines of a file, or the labels of a list,
/// sorted; none where these are all numbers. Throws UserError.
std::vector<std::string> listed_classes(const std::filesystem::path& file,
                                        const ListColumns& columns);

/// Names of the columns, or keys, beside the path's, that hold numbers in the first sample: those
/// that targets may name. None where the first line names nothing. Throws UserError.
std::vector<std::string> listed_columns(const std::filesystem::path& file,
                                        const ListColumns& columns);

/// An image that a list names, its path as seen from here, and its label; empty where it has none.
struct ListedImage {
  std::string path, label;
  int64_t line = 0;
};

/// Those of a list, with or without labels, in its order; relative paths begin at its folder.
/// Throws UserError naming the line that is wrong.
std::vector<ListedImage> listed_images(const std::filesystem::path& file);

/// The files that a list names, in its order, as a table; relative paths begin at its folder.
/// Labels are numbers, if all of them are, or names in sorted order. classes: of listed_classes;
/// labels are the places of their names there, or where it is empty numbers. files: where they are
/// looked for; nothing: nowhere. Throws UserError naming the line, and column, that is wrong.
SampleTableWriter list_table(const std::filesystem::path& file, const ListColumns& columns,
                             const std::optional<std::vector<std::string>>& classes,
                             const std::optional<ListedFiles>& files = {});

}  // namespace composer
