// Checks of the file that a command shall write.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace composer {

/// UserError, naming the option, when the path is one of a store.
void check_on_this_machine(const std::string& option, const std::string& path);

/// UserError, naming --output, when the path is one of a store, when the path is a folder, when its
/// folder is missing or not writable, when its name does not end in `ending`, or when the file
/// exists and `overwrite` is false.
void check_output_file(const std::string& output, bool overwrite, const std::string& ending = "");

/// An HTML page that a command writes. It replaces only an HTML page, never another file that was
/// named by mistake.
class PageFile {
 public:
  /// option: the option that named the file, for messages. UserError when the file exists and is no
  /// page, when a new file has an ending other than .html, or when it cannot be written.
  PageFile(std::string option, std::filesystem::path file);

  /// Writes the page and logs its path. UserError when the file cannot be written.
  void write(std::string_view page) const;

 private:
  std::string option_;
  std::filesystem::path file_;
};

}  // namespace composer
