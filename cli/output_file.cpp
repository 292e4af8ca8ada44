#include "cli/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/log.h"
#include "base/remote/remote_path.h"
#include "base/text.h"

namespace composer {

void check_on_this_machine(const std::string& option, const std::string& path) {
  if (is_remote(path))
    throw UserError(option + ": must be on this machine, not " + shown_path(path));
}

void check_output_file(const std::string& output, bool overwrite, const std::string& ending) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (output.empty()) throw UserError("--output: is empty; name the file to write");
  check_on_this_machine("--output", output);
  if (!ending.empty() && fs::path(output).extension() != ending)
    throw UserError("--output: " + output + " must end in " + ending);
  if (fs::path(output).filename().string().size() > NAME_MAX)
    throw UserError("--output: its name is longer than a file's may be (" +
                    std::to_string(NAME_MAX) + " bytes)");
  if (fs::is_directory(output, error)) throw UserError("--output: '" + output + "' is a folder");
  if (fs::exists(fs::symlink_status(output, error)) && !overwrite)
    throw UserError("--output: '" + output + "' exists; --overwrite replaces it");
  const auto folder = fs::absolute(output, error).parent_path();
  if (!fs::is_directory(folder, error))
    throw UserError("--output: there is no folder '" + folder.string() + "'");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw UserError("--output: '" + folder.string() +
                    "' cannot be written to: " + std::strerror(errno));
}

PageFile::PageFile(std::string option, std::filesystem::path file)
    : option_(std::move(option)), file_(std::move(file)) {
  check_on_this_machine(option_, file_.string());
  std::error_code problem;
  if (std::filesystem::is_directory(file_, problem))
    throw UserError(option_ + ": " + file_.string() + " is a folder; name a file");
  const auto folder = file_.has_parent_path() ? file_.parent_path() : ".";
  if (!std::filesystem::is_directory(folder, problem))
    throw UserError(option_ + ": there is no folder " + folder.string());
  if (faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) != 0)
    throw UserError(option_ + ": " + cannot_be_written(folder, errno));
  if (!std::filesystem::exists(file_, problem)) {
    const auto ending = lower_case(file_.extension().string());
    if (!ending.empty() && ending != ".html" && ending != ".htm")
      throw UserError(option_ + ": " + file_.string() +
                      ": what is written is a page for a browser; name it .html");
  }
  if (!std::filesystem::is_regular_file(file_, problem)) return;
  std::ifstream in(file_, std::ios::binary);
  std::string begin(16, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(in.gcount()));
  const bool unread = !in.is_open() || in.bad();
  if (unread || (!begin.empty() && !lower_case(begin).starts_with("<!doctype html")))
    throw UserError(option_ + ": " + file_.string() +
                    " is there already, and is no page; name another file");
}

void PageFile::write(std::string_view page) const try {
  write_whole(file_, page);
  log::info("the page is " + file_.string());
} catch (const RunError& error) {
  throw UserError(option_ + ": " + error.what());
}

}  // namespace composer
