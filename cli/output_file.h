// The file that an option of a command names, to be written.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace composer {

/// UserError, naming --output, where it is a folder, its folder is missing or cannot be written to,
/// its name has another ending, or it is there already and
/// `overwrite` is not set.
void check_output_file(const std::string& output, bool overwrite, const std::string& ending = "");

/// Takes the place of a page alone: a recipe or a log that was named by mistake stays.
class PageFile {
 public:
  /// option: as it was given, for messages: "--output". UserError for a file that is
  /// there and is no page, for a new one named as another kind, and where no file can be.
  PageFile(std::string option, std::filesystem::path file);

  /// Tells where it is. UserError where the file cannot be written.
  void write(std::string_view page) const;

 private:
  std::string option_;
  std::filesystem::path file_;
};

}  // namespace composer
