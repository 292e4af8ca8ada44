// The file of a page for a browser that an option names.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace composer {

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
