// Tables of samples that are made once, by one process of a machine, and kept in the user's cache.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/samples/sample_table.h"

namespace composer {

struct TableMaker {
  std::string does;  ///< for the log: "lists the files of /data/train"
  std::string root;  ///< that the relative paths of a table's watched things begin with
  std::vector<std::string> classes{};  ///< that the table must have; empty: any
  /// Nothing where there is to be no table.
  std::function<std::optional<std::vector<uint8_t>>()> make;
};

/// The table in `file`, where all that it watches is as it was then; else made, and put there: all
/// processes of a machine have one table in memory. While one makes it the others wait, and take
/// what it made. Where it cannot be kept, or `file` is empty, the log says why, and each process
/// makes its own. Null where make() gave nothing; throws what make() throws.
std::shared_ptr<const SampleTable> kept_table(const std::filesystem::path& file,
                                              const TableMaker& maker);

}  // namespace composer
